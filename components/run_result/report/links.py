"""Pages that have more than the report of a run: the console's, and the report on the data."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from components.run_result.summary import Summary
from components.shared.vertex.api import EMULATOR_VARIABLE
from components.shared.vertex.console import console_page
from components.shared.vertex.task_details import details_by_name, leaf_tasks
from trainer import Json, paths

DATA_LINK = "data report"
BUCKETS_IN_BROWSER = "https://storage.cloud.google.com"


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
