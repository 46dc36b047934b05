"""The step that finds the data of a run and looks for news in it; it imports no TensorFlow."""

import logging
from typing import NamedTuple

from components.new_data.earlier_runs import Training, last_training
from components.new_data.news import look_for_news
from components.new_data.trigger import COMPARE, Trigger
from components.prepare_examples.fingerprint import read_input
from components.prepare_examples.raw_data.run_files import resolved_text, run_moment
from components.prepare_examples.settings.options import PREVIOUS, PrepareOptions
from components.prepare_examples.settings.patterns import duration
from components.shared.vertex.api import connect

logger = logging.getLogger(__name__)


class RunInput(NamedTuple):
    """Outputs of the component `fingerprint_input`."""

    fingerprint: str
    prepare: str
    run_time: str
    verdict: str
    reasons: str
    champion: str
    champion_uri: str


def look_at_input(
    *,
    project: str,
    location: str,
    run: str,
    model_name: str,
    workload: str,
    data_dir: str,
    trust_files: bool,
    prepare: str,
    trigger: str,
    champion: str,
    champion_uri: str,
    schedule_time: str,
    create_time: str,
) -> RunInput:
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
    if conditions.cool_down and champion:
        within = duration(conditions.cool_down)
        api = connect(project, location)
        last = last_training(api, run=run, model_name=model_name, now=now, within=within)
    news = look_for_news(
        conditions, data=data, champion=champion, champion_uri=champion_uri, last=last, now=now
    )
    logger.info("run of %s: %s", now.isoformat(), "; ".join([news.verdict, *news.reasons]))
    # Without a comparison the next step does not depend on the champion, and may be cached.
    is_compared = news.verdict == COMPARE or options.baseline == PREVIOUS
    return RunInput(
        fingerprint=data.fingerprint,
        prepare=text,
        run_time=now.isoformat(),
        verdict=news.verdict,
        reasons="\n".join(news.reasons),
        champion=champion if is_compared else "",
        champion_uri=champion_uri if is_compared else "",
    )
