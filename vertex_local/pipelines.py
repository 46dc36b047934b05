"""pipelineJobs: each runs in a process of its own (`pipeline_runner.py`), watched until it ends."""

import json
import logging
import re
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vertex_local import events, operations, pipeline_spec, processes, protos
from vertex_local.errors import (
    RPC_CODES,
    already_exists,
    failed_precondition,
    invalid_argument,
)
from vertex_local.filters import paginate
from vertex_local.pipeline_run import EXIT_TASKS_SECONDS
from vertex_local.pipeline_runner import JOB_FILE
from vertex_local.routes import Call, Json, Route
from vertex_local.service import Service, now
from vertex_local.supervisor import INTERRUPTED

logger = logging.getLogger(__name__)

KIND = "pipelineJobs"
ID_PATTERN = re.compile(r"[a-z][-a-z0-9]{0,127}")
RUNNER = "pipeline"
LOG_FILE = "pipeline.log"
UNFINISHED_STATES = tuple(f"PIPELINE_STATE_{s}" for s in ("PENDING", "RUNNING", "CANCELLING"))
OUTPUT_ONLY_FIELDS = (
    "name",
    "state",
    "createTime",
    "startTime",
    "endTime",
    "updateTime",
    "error",
    "jobDetail",
)
# How the runner's group ends when the runner could not say how the pipeline ended.
OUTCOMES = {
    "succeeded": ("FAILED", "INTERNAL"),
    "failed": ("FAILED", "INTERNAL"),
    "timed_out": ("FAILED", "DEADLINE_EXCEEDED"),
    "cancelled": ("CANCELLED", "CANCELLED"),
    "interrupted": ("FAILED", "ABORTED"),
}
STEP_CODES = {"FAILED": "FAILED_PRECONDITION", "CANCELLED": "CANCELLED"}
# Exit tasks still run after a cancel; ending a step or a job before them takes time as well.
CANCEL_GRACE_SECONDS = EXIT_TASKS_SECONDS + 45.0
CLOSE_GRACE_SECONDS = 10.0
ORPHANS_TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True)
class RunningPipeline:
    """A pipeline's runner, and the thread that records its end."""

    group: processes.Group
    watcher: threading.Thread


def create(service: Service, call: Call) -> Json:
    """POST …/pipelineJobs?pipelineJobId=ID starts the pipeline and answers it as PENDING."""
    body = protos.parse("PipelineJob", call.body)
    plan = pipeline_spec.plan(body)
    job_id = _job_id(service, call)
    created = now()
    record = {
        **{field: value for field, value in body.items() if field not in OUTPUT_ONLY_FIELDS},
        "name": f"{call.parent}/{KIND}/{job_id}",
        "state": "PIPELINE_STATE_PENDING",
        "createTime": created,
        "updateTime": created,
    }
    _insert(service, record)
    _launch(service, {**record, **plan})
    return record


def get(service: Service, call: Call) -> Json:
    """GET …/pipelineJobs/ID, with the tasks as they are now."""
    job = service.store.get(_name(call))
    interrupted = "" if _is_unfinished(job) else job.get("error", {}).get("message", INTERRUPTED)
    journal = events.read(pipeline_folder(service, job["name"]))
    details = events.task_details(journal, interrupted=interrupted)
    return {**job, "jobDetail": {"taskDetails": details}} if details else job


def list_pipelines(service: Service, call: Call) -> Json:
    """GET …/pipelineJobs; task details are not part of it, as on Vertex AI."""
    return paginate(call, KIND, service.store.list(f"{call.parent}/{KIND}"))


def cancel(service: Service, call: Call) -> Json:
    """POST …/pipelineJobs/ID:cancel; exit tasks still run. What has ended stays as it is."""
    job = service.store.get(_name(call))
    if job["state"] in UNFINISHED_STATES[:2]:
        _cancel(service, job["name"], grace_seconds=CANCEL_GRACE_SECONDS)
    return {}


def delete(service: Service, call: Call) -> Json:
    """DELETE …/pipelineJobs/ID removes the run and its logs, never its outputs."""
    name = _name(call)
    with service.store.atomic():
        job = service.store.get(name)
        if _is_unfinished(job):
            raise failed_precondition(
                f"{name} is in state {job['state']}; cancel it, or wait for its end, to delete it."
            )
        service.store.delete(name)
    shutil.rmtree(pipeline_folder(service, name), ignore_errors=True)
    return operations.finished(
        service, name, metadata_type="DeleteOperationMetadata", response_type="", response={}
    )


def recover(service: Service) -> None:
    """Settles what an earlier service left unfinished; its processes ended with it."""
    jobs = service.store.list_kind(KIND)
    for job in jobs:
        if _is_unfinished(job):
            folder = pipeline_folder(service, job["name"])
            if not processes.await_end(folder, timeout_seconds=ORPHANS_TIMEOUT_SECONDS):
                logger.warning("The processes of %s have not ended yet", job["name"])
            _record_end(service, job["name"], {"state": "interrupted", "message": INTERRUPTED})
    known = {pipeline_folder(service, job["name"]) for job in jobs}
    for folder in (service.root / "pipelines").glob("*"):
        if folder not in known:  # a deletion was interrupted
            shutil.rmtree(folder, ignore_errors=True)


def close(service: Service) -> None:
    """Cancels the running pipelines and waits until their end is recorded."""
    running = {n: one for n, one in service.running.items() if isinstance(one, RunningPipeline)}
    for name in running:
        _cancel(service, name, grace_seconds=CLOSE_GRACE_SECONDS)
    for one in running.values():
        one.watcher.join(CLOSE_GRACE_SECONDS + processes.STOP_MARGIN_SECONDS)


def pipeline_folder(service: Service, name: str) -> Path:
    """ROOT/pipelines/ID of a PipelineJob: its journal and its logs."""
    return service.root / "pipelines" / name.rpartition("/")[2]


def _job_id(service: Service, call: Call) -> str:
    job_id = call.query.get("pipelineJobId") or f"pipeline-{service.store.next_id()}"
    if not ID_PATTERN.fullmatch(job_id):
        raise invalid_argument(
            f'pipelineJobId "{job_id}" is not valid; it must match {ID_PATTERN.pattern}.'
        )
    return job_id


def _insert(service: Service, record: Json) -> None:
    with service.store.atomic():
        service.store.insert(record["name"], record)
        # The folder bears the id alone, so that it is found easily.
        if (folder := pipeline_folder(service, record["name"])).exists():
            raise already_exists(f"The id is used by another project or location: {folder}")
        folder.mkdir(parents=True)


def _launch(service: Service, job: Json) -> None:
    """Starts the runner and the thread that watches it; if it cannot, the pipeline has failed."""
    name = job["name"]
    folder = pipeline_folder(service, name)
    try:
        (folder / JOB_FILE).write_text(json.dumps(job))
        group = processes.start(folder, [_runner(service, job, folder)], timeout_seconds=None)
    except (OSError, ValueError) as error:
        _record_end(service, name, {"state": "failed", "message": f"could not start: {error}"})
        return
    watcher = threading.Thread(
        target=_watch, args=(service, name, group), name=f"pipeline-{folder.name}", daemon=True
    )
    service.running[name] = RunningPipeline(group, watcher)
    watcher.start()


def _runner(service: Service, job: Json, folder: Path) -> processes.ProcessSpec:
    module = "vertex_local.pipeline_runner"
    cache_dir = service.root / "step_cache"
    return processes.ProcessSpec(
        name=RUNNER,
        command=["python", "-m", module, str(folder), "--cache-dir", str(cache_dir)],
        env={
            "VERTEX_EMULATOR_HOST": service.url.removeprefix("http://"),
            "VERTEX_AI_PIPELINES_RUN_LABELS": json.dumps(job.get("labels", {})),
        },
        cwd=None,
        log_path=folder / LOG_FILE,
    )


def _watch(service: Service, name: str, group: processes.Group) -> None:
    try:
        service.store.update(name, _set_running)
    except Exception:
        logger.exception("The start of %s cannot be recorded", name)
    state = group.wait()
    try:
        _record_end(service, name, state)
    except Exception:
        logger.exception("The end of %s cannot be recorded: %s", name, state)
    service.running.pop(name, None)


def _set_running(job: Json) -> None:
    if job["state"] == "PIPELINE_STATE_PENDING":
        started = now()
        job.update(state="PIPELINE_STATE_RUNNING", startTime=started, updateTime=started)


def _cancel(service: Service, name: str, *, grace_seconds: float) -> None:
    def change(job: Json) -> None:
        if _is_unfinished(job):
            job.update(state="PIPELINE_STATE_CANCELLING", updateTime=now())

    service.store.update(name, change)
    running = service.running.get(name)
    if running:
        running.group.request_stop(grace_seconds)


def _record_end(service: Service, name: str, group_state: Json) -> None:
    folder = pipeline_folder(service, name)
    state, error = _outcome(folder, group_state)
    ended = now()

    def change(job: Json) -> None:
        job.update(state=f"PIPELINE_STATE_{state}", endTime=ended, updateTime=ended)
        if error:
            job["error"] = error

    service.store.update(name, change)
    logger.info("%s ended: %s %s", name, state, error.get("message", ""))


def _outcome(folder: Path, group_state: Json) -> tuple[str, dict[str, Any]]:
    """The last state and the error: by the runner's word, else by what became of the runner."""
    ended = events.last(events.read(folder), "pipeline_ended")
    if ended is None:
        state, code = OUTCOMES[group_state["state"]]
        return state, {"code": RPC_CODES[code], "message": group_state["message"]}
    if ended["state"] == "SUCCEEDED":
        return "SUCCEEDED", {}
    return ended["state"], {
        "code": RPC_CODES[STEP_CODES[ended["state"]]],
        "message": ended["error"],
    }


def _is_unfinished(job: Json) -> bool:
    return job["state"] in UNFINISHED_STATES


def _name(call: Call) -> str:
    return f"{call.parent}/{KIND}/{call.args['id']}"


_COLLECTION = f"projects/<project>/locations/<location>/{KIND}"
ROUTES = [
    Route("POST", _COLLECTION, create),
    Route("GET", _COLLECTION, list_pipelines),
    Route("GET", f"{_COLLECTION}/<id>", get),
    Route("DELETE", f"{_COLLECTION}/<id>", delete),
    Route("POST", f"{_COLLECTION}/<id>:cancel", cancel),
]
