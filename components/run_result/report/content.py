"""Content of a report: the run's facts, and the files of its steps that exist."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from components.errors import StepError
from components.model_version.companions import STATISTICS_FILE, read_companion
from components.plan_training.cluster_spec import ClusterSpec
from components.plan_training.prices import PRICES, TrainingPrice, training_price
from components.prepare_examples.output.publish import ANOMALIES, MANIFEST
from components.run_result.report.links import Links, links_of
from components.run_result.settings import parameters_of
from components.run_result.summary import Summary
from components.shared.vertex.task_details import outputs_by_task
from trainer import Json
from trainer.errors import TrainerError

logger = logging.getLogger(__name__)

METRICS_FILE = "metrics.jsonl"
TRAINING_TASK = "train"


@dataclass(frozen=True, kw_only=True)
class Content:
    """Everything that a report draws; of a run that ended early, some of it is empty.

    Attributes:
        summary: The facts of the run.
        evaluation: The content of evaluation.json.
        manifest: Of the examples.
        anomalies: Of the examples.
        statistics: Of the examples, by split.
        champion_statistics: Of the examples that the champion has learnt from.
        progress: The lines of metrics.jsonl.
        replicas: Replicas of the training jobs, as the local service returns them.
        links: Pages that have more.
        cost: Of the training on Vertex AI; None if a price is unknown.
    """

    summary: Summary
    evaluation: Json = field(default_factory=dict)
    manifest: Json = field(default_factory=dict)
    anomalies: Sequence[Json] = ()
    statistics: Json = field(default_factory=dict)
    champion_statistics: Json = field(default_factory=dict)
    progress: Sequence[Json] = ()
    replicas: Sequence[Json] = ()
    links: Links = field(default_factory=Links)
    cost: TrainingPrice | None = None

    @property
    def has_data_report(self) -> bool:
        """True if the files of the examples could be read."""
        return bool(self.manifest and self.statistics)


def read_content(job: Json, summary: Summary, *, replicas: Sequence[Json], folder: Path) -> Content:
    """Return the content for a PipelineJob and a report in `folder`.

    A file that cannot be read is left out.

    `replicas` has the response of `…/customJobs/ID/replicas` for each training job; it is empty on
    Vertex AI.
    """
    outputs = outputs_by_task(job)
    logs = outputs.get("plan-training.base_output_directory", "")
    champion = outputs.get("start.champion_uri", "")
    examples = outputs.get("prepare-examples.examples.uri", "")
    return Content(
        summary=summary,
        evaluation=read_evaluation(summary),
        manifest=_read_json(_inside(examples, MANIFEST)),
        anomalies=_read_json(_inside(examples, ANOMALIES)).get("anomalies", []),
        statistics=_read_json(_inside(examples)),
        champion_statistics=_read_json(_inside(champion)),
        progress=_read_lines(_inside(logs, f"logs/{METRICS_FILE}")),
        replicas=[replica for job in replicas for replica in job.get("replicas", [])],
        links=links_of(job, summary, outputs, folder=folder),
        cost=training_cost(str(parameters_of(job).get("cluster", "")), summary),
    )


def read_evaluation(summary: Summary) -> Json:
    """Return the content of a run's evaluation.json, {} if it cannot be read."""
    return _read_json(summary.evaluation)


def training_cost(cluster: str, summary: Summary, *, prices: Path = PRICES) -> TrainingPrice | None:
    """Return the cost of a run's training; None without one, or if a price is unknown.

    A run that did not train has none, and one that trained on a persistent resource.
    """
    done = [t for t in summary.tasks if t["name"] == TRAINING_TASK and not t["cached"]]
    seconds = sum(task["seconds"] for task in done)
    if not (cluster and seconds):
        return None
    try:
        price = training_price(ClusterSpec.from_json(cluster), seconds, prices=prices)
    except (TrainerError, StepError, OSError) as error:
        logger.warning("the cost of the training is unknown: %s", error)
        return None
    return None if price and price.cost.unknown else price


def _inside(folder: str, name: str = STATISTICS_FILE) -> str:
    return f"{folder}/{name}" if folder else ""


def _read(uri: str) -> str:
    """Return a file's text, "" without the file; an error is logged.

    Google's client raises many kinds of errors, and none of them may fail a run that has ended.
    """
    folder, _, name = uri.rpartition("/")
    if not (folder and name):
        return ""
    try:
        return (read_companion(folder, name) or b"").decode("utf-8")
    except Exception as error:
        logger.warning("%s is left out of the report: %s", uri, error)
        return ""


def _read_json(uri: str) -> Json:
    text = _read(uri)
    try:
        content = json.loads(text) if text else {}
    except ValueError as error:
        logger.warning("%s is left out of the report: %s", uri, error)
        return {}
    return content if isinstance(content, dict) else {}


def _read_lines(uri: str) -> list[Json]:
    """Return the lines of a file; a line that a killed training has cut is left out."""
    lines = []
    for line in _read(uri).splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return [line for line in lines if isinstance(line, dict)]
