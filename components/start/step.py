"""The step that finds the data of a run and looks for news in it; it imports no TensorFlow."""

import logging
from typing import NamedTuple

from components.model_version.champion import Champion, find_compared
from components.prepare_examples.fingerprint import read_input
from components.prepare_examples.raw_data.run_files import resolved_text, run_moment
from components.prepare_examples.settings.options import PREVIOUS, PrepareOptions
from components.prepare_examples.settings.patterns import duration
from components.shared.vertex.api import VertexApi
from components.start.comparison import AskedComparison
from components.start.news import Training, is_data_of, last_training, look_for_news
from components.start.trigger import COMPARE, Trigger

logger = logging.getLogger(__name__)


class Start(NamedTuple):
    """Outputs of the component `start`."""

    fingerprint: str
    prepare: str
    run_time: str
    verdict: str
    reasons: str
    champion_uri: str
    comparison: str


def start_run(
    api: VertexApi,
    *,
    champion: Champion,
    run: str,
    model_name: str,
    workload: str,
    data_dir: str,
    trust_files: bool,
    prepare: str,
    trigger: str,
    schedule_time: str,
    create_time: str,
) -> Start:
    """Return the input of a run and the verdict on it; the arguments are the component's.

    Raises:
        ConfigError: a setting is not allowed.
        DataError: a file is missing, or none has a date of the run.
        OSError: a bucket, or BigQuery, cannot be reached.
    """
    conditions = Trigger.from_json(trigger)
    options = PrepareOptions.from_json(prepare, trust_files=trust_files)
    now = run_moment(options, schedule_time=schedule_time, create_time=create_time)
    text = resolved_text(prepare, now)
    resolved = PrepareOptions.from_json(text, trust_files=trust_files)
    data = read_input(workload, data_dir=data_dir, options=resolved)
    last: Training | None = None
    if conditions.cool_down and champion.version:
        within = duration(conditions.cool_down)
        last = last_training(api, run=run, model_name=model_name, now=now, within=within)
    news = look_for_news(conditions, data=data, champion=champion, last=last, now=now)
    logger.info("run of %s: %s", now.isoformat(), "; ".join([news.verdict, *news.reasons]))
    baseline = Champion()
    if news.verdict == COMPARE:
        baseline = champion
    elif options.baseline == PREVIOUS:
        # A run on the champion's own data repeats its comparison, so later steps may be cached.
        is_same = is_data_of(data, champion)
        baseline = find_compared(api, champion.version) if is_same else champion
    asked = AskedComparison(
        version=baseline.version,
        model_uri=baseline.model_uri,
        verdict=news.verdict,
        drift=conditions.drift,
        is_baseline=options.baseline == PREVIOUS,
        drift_threshold=options.drift_threshold,
        block_on=options.block_on,
    )
    return Start(
        fingerprint=data.fingerprint,
        prepare=text,
        run_time=now.isoformat(),
        verdict=news.verdict,
        reasons="\n".join(news.reasons),
        champion_uri=champion.model_uri,
        # Without a version the next steps do not depend on the champion, and may be cached.
        comparison=asked.to_json() if baseline.version else "",
    )
