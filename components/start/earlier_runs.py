"""The last run that trained a model, for the cool-down of a trigger."""

import datetime
import itertools
from dataclasses import dataclass

from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import SCHEDULE_LABEL
from components.shared.vertex.resource_name import ResourceName
from components.shared.vertex.task_details import leaf_tasks, outputs_by_task, task_views
from trainer import Json

TRAINING_TASK, INPUT_TASK = "train", "start"
MAX_RUNS = 100  # of which the tasks are requested, newest first


@dataclass(frozen=True, kw_only=True)
class Training:
    """A run that trained, and the time of its date (`run_time`)."""

    run: str
    moment: datetime.datetime


def last_training(
    api: VertexApi, *, run: str, model_name: str, now: datetime.datetime, within: datetime.timedelta
) -> Training | None:
    """Return the newest run that trained a model within a time before now.

    Times are `run_time`, not creation times: `vertex_local` may start a schedule's runs faster
    than real time. Lists omit the tasks, so each run is requested by name.

    Args:
        api: project and location.
        run: name of this run.
        model_name: display name of the model.
        now: time of this run.
        within: the cool-down.
    """
    own = api.find(f"{api.parent}/pipelineJobs/{run}") or {}
    schedule = own.get("labels", {}).get(SCHEDULE_LABEL, "")
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
    """Return the `run_time` of a run, None if it has not trained."""
    names = leaf_tasks(job["pipelineSpec"]) if "pipelineSpec" in job else {}
    states = {view.name: view.state for view in task_views(job, names)}
    if states.get(TRAINING_TASK) != "SUCCEEDED":
        return None
    run_time = outputs_by_task(job, names).get(INPUT_TASK, {}).get("run_time")
    return datetime.datetime.fromisoformat(str(run_time or job["createTime"]))
