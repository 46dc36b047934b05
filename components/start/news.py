"""Comparison of a run's data with the promoted version's, before anything is prepared."""

import datetime
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.model_version.champion import Champion
from components.model_version.companions import INPUT_FILE, read_companion_object
from components.prepare_examples.fingerprint import InputData
from components.shared.text.value_text import first_of
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import SCHEDULE_LABEL, label_of
from components.shared.vertex.resource_name import ResourceName
from components.shared.vertex.task_details import outputs_by_task, task_views
from components.start.trigger import COMPARE, NOTHING_NEW, TRAIN, Trigger
from trainer import Json
from trainer.errors import InputError

NUM_SHOWN = 3
TRAINING_TASK = "train"
MAX_RUNS = 100  # of which the tasks are requested, newest first


@dataclass(frozen=True, kw_only=True)
class Training:
    """A run that trained, and the time of its date (`run_time`)."""

    run: str
    moment: datetime.datetime


@dataclass(frozen=True, kw_only=True)
class News:
    """Verdict on the data of a run, TRAIN, COMPARE or NOTHING_NEW, with its reasons."""

    verdict: str
    reasons: tuple[str, ...] = ()


def look_for_news(
    trigger: Trigger,
    *,
    data: InputData,
    champion: Champion,
    last: Training | None,
    now: datetime.datetime,
) -> News:
    """Return the verdict: train, compare the examples first, or end the run.

    `last` is the last training within the cool-down.
    """
    if trigger == Trigger():
        return News(verdict=TRAIN)
    if not champion.version:
        return News(verdict=TRAIN, reasons=("no version has been promoted yet",))
    if last:
        ago = f"{(now - last.moment).total_seconds() / 3600:.0f} h"
        reason = f"{last.run} trained {ago} ago; the cool-down is {trigger.cool_down}"
        return News(verdict=NOTHING_NEW, reasons=(reason,))
    reasons = []
    if trigger.new_files:
        is_new, reason = _new_files(data, champion)
        if is_new:
            return News(verdict=TRAIN, reasons=(reason,))
        reasons.append(reason)
    if trigger.drift:
        return News(verdict=COMPARE, reasons=tuple(reasons))
    return News(verdict=NOTHING_NEW if reasons else TRAIN, reasons=tuple(reasons))


def short_name(version: str) -> str:
    """Return `version 3` for the resource name of a version."""
    return f"version {ResourceName.from_name(version).version}"


def is_data_of(data: InputData, champion: Champion) -> bool:
    """Return whether a version was trained on the input; a damaged record says nothing."""
    try:
        known = read_companion_object(champion.model_uri, INPUT_FILE, "fingerprint")
    except InputError:
        return False
    return known is not None and bool(known["fingerprint"] == data.fingerprint)


def _new_files(data: InputData, champion: Champion) -> tuple[bool, str]:
    """Return whether the input has a file that the champion's input lacked, and the reason."""
    version = short_name(champion.version)
    try:
        known = read_companion_object(champion.model_uri, INPUT_FILE, "fingerprint", "files")
    except InputError as error:
        return True, str(error)
    if known is None:
        return True, f"{version} has no record of its data"
    if known["fingerprint"] == data.fingerprint:
        return False, f"the data is that of {version}"
    if known["files"] is None or data.listed is None:  # too many to list
        return True, f"the data differs from that of {version}"
    before = set(map(json.dumps, known["files"]))
    new = [file for file in data.listed if json.dumps(file) not in before]
    if not new:
        return False, f"{version} has seen every file"
    names = first_of(list(map(_shown, new)), NUM_SHOWN)
    kind = "file" if len(new) == 1 else "files"
    return True, f"{len(new)} new {kind} since {version}: {names}"


def _shown(fact: Any) -> str:
    """Return a file's name without its folder; a table of BigQuery is one text."""
    return fact if isinstance(fact, str) else Path(fact[0]).name


def last_training(
    api: VertexApi, *, run: str, model_name: str, now: datetime.datetime, within: datetime.timedelta
) -> Training | None:
    """Return the newest run that trained a model within a time before now.

    Times are `run_time`, not creation times: `vertex_local` may start a schedule's runs faster
    than real time. Lists omit the tasks, so each run is requested by name.
    """
    own = api.find(f"{api.parent}/pipelineJobs/{run}") or {}
    schedule = label_of(own, SCHEDULE_LABEL)
    query = f'labels.{SCHEDULE_LABEL}="{schedule}"' if schedule else ""
    newest = api.list_resources(
        "pipelineJobs", filter=query, orderBy="create_time desc", readMask="name,runtimeConfig"
    )
    records = (record for record in newest if _model_of(record) == model_name)
    others = (record for record in records if record["name"] != own.get("name"))
    for record in itertools.islice(others, MAX_RUNS):
        moment = _training_time(api.find(record["name"]) or {})
        if moment and now - within < moment <= now:
            return Training(run=ResourceName.from_name(record["name"]).id, moment=moment)
    return None


def _model_of(record: Json) -> str:
    return str(record.get("runtimeConfig", {}).get("parameterValues", {}).get("model_name", ""))


def _training_time(job: Json) -> datetime.datetime | None:
    states = {view.name: view.state for view in task_views(job)}
    if states.get(TRAINING_TASK) != "SUCCEEDED":
        return None
    run_time = outputs_by_task(job).get("start.run_time")
    return datetime.datetime.fromisoformat(str(run_time or job["createTime"]))
