"""Content of a report: the run's facts, and the files of its steps that exist."""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from components.errors import StepError
from components.model_version.companions import STATISTICS_FILE, read_companion
from components.plan_training.prices import PRICES, TrainingPrice, training_price
from components.plan_training.shape import ClusterSpec
from components.prepare_examples.output.publish import ANOMALIES, MANIFEST
from components.run_result.settings import parameters_of
from components.run_result.summary import Summary
from components.shared.vertex.api import EMULATOR_VARIABLE
from components.shared.vertex.resource_name import console_page
from components.shared.vertex.task_details import details_by_name, leaf_tasks, outputs_by_task
from trainer import Json, paths
from trainer.errors import TrainerError

logger = logging.getLogger(__name__)

DATA_LINK = "data report"
BUCKETS_IN_BROWSER = "https://storage.cloud.google.com"
METRICS_FILE = "metrics.jsonl"
TRAINING_TASK = "train"


@dataclass(frozen=True, kw_only=True)
class Links:
    """Addresses of other pages.

    Attributes:
        pages: By the text of the link.
        tasks: By the task's name; the local console has pages of tasks with their logs.
        logs: Folder of the training's logs, which TensorBoard draws.
    """

    pages: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    logs: str = ""


def links_of(job: Json, summary: Summary, outputs: Json, *, folder: Path) -> Links:
    """Return the links of the report in a folder; `outputs` are by `TASK.OUTPUT`."""
    run = console_page(job["name"])
    texts = [str(value) for name, value in outputs.items() if name.endswith(".Output")]
    version = next((text for text in texts if "/models/" in text), "")
    champion = outputs.get("evaluate.champion_version", "")
    training = _custom_job(outputs.get("train.gcp_resources") or "{}")
    addresses = {
        "console": run,
        "training job and its logs": console_page(training) if training else "",
        DATA_LINK: _address(summary.data_report, folder) if summary.data_report else "",
        summary.model_version: console_page(version) if version else "",
        "champion": console_page(champion) if champion else "",
    }
    is_local, names = EMULATOR_VARIABLE in os.environ, leaf_tasks(job)
    tasks = {
        names[name]: f"{run}/tasks/{detail['taskUniqueName']}"
        for name, detail in details_by_name(job).items()
        if is_local and name in names and "taskUniqueName" in detail
    }
    logs = outputs.get("plan-training.base_output_directory", "")
    return Links(
        pages={text: address for text, address in addresses.items() if text and address},
        tasks=tasks,
        logs=f"{logs}/logs" if logs else "",
    )


def _custom_job(text: str) -> str:
    """Return the name of the job in the `gcp_resources` of Google's components."""
    resources = json.loads(text).get("resources", [])
    return next((r["resourceUri"].partition("/v1/")[2] for r in resources), "")


def _address(uri: str, folder: Path) -> str:
    """Return the address of a file: relative to the page's folder, or of a bucket in a browser."""
    if paths.is_in_bucket(uri) and EMULATOR_VARIABLE not in os.environ:
        return f"{BUCKETS_IN_BROWSER}/{quote(paths.uri(uri).removeprefix(paths.BUCKET_SCHEME))}"
    return quote(os.path.relpath(paths.local_path(uri), folder))


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
