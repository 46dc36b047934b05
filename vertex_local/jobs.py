"""customJobs: each becomes a cluster of processes on this machine, watched until it ends."""

import logging
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vertex_local import operations, processes, protos
from vertex_local.cluster_spec import JobPlan, plan_job, process_specs
from vertex_local.errors import RPC_CODES, ApiError, failed_precondition, invalid_argument
from vertex_local.filters import paginate
from vertex_local.ports import POOL
from vertex_local.routes import Call, Json, Route
from vertex_local.service import Service, now
from vertex_local.supervisor import INTERRUPTED

logger = logging.getLogger(__name__)

KIND = "customJobs"
UNFINISHED_STATES = ("JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_CANCELLING")
OUTPUT_ONLY_FIELDS = (
    "name",
    "state",
    "createTime",
    "startTime",
    "endTime",
    "updateTime",
    "error",
    "webAccessUris",
)
# How a group ends, and what Vertex AI calls it: the job's state and a google.rpc.Code.
OUTCOMES = {
    "succeeded": ("JOB_STATE_SUCCEEDED", ""),
    "failed": ("JOB_STATE_FAILED", "INVALID_ARGUMENT"),
    "timed_out": ("JOB_STATE_FAILED", "DEADLINE_EXCEEDED"),
    "cancelled": ("JOB_STATE_CANCELLED", "CANCELLED"),
    "interrupted": ("JOB_STATE_FAILED", "ABORTED"),
}
CANCEL_GRACE_SECONDS = 10.0
CLOSE_GRACE_SECONDS = 5.0
ORPHANS_TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True)
class RunningJob:
    """A job's processes, and the thread that records their end."""

    group: processes.Group
    watcher: threading.Thread


def create(service: Service, call: Call) -> Json:
    """POST …/customJobs starts the job and answers it at once, as PENDING."""
    job = protos.parse("CustomJob", call.body)
    plan = plan_job(job)
    _make_output_dir(plan)
    job_id = service.store.next_id()
    folder = job_folder(service, job_id)
    folder.mkdir(parents=True)
    created = now()
    record = {
        "name": f"{call.parent}/{KIND}/{job_id}",
        **{field: value for field, value in job.items() if field not in OUTPUT_ONLY_FIELDS},
        "state": "JOB_STATE_PENDING",
        "createTime": created,
        "updateTime": created,
    }
    service.store.insert(record["name"], record)
    _launch(service, call, name=record["name"], plan=plan)
    return record


def get(service: Service, call: Call) -> Json:
    """GET …/customJobs/ID."""
    return service.store.get(_name(call))


def list_jobs(service: Service, call: Call) -> Json:
    """GET …/customJobs."""
    return paginate(call, KIND, service.store.list(f"{call.parent}/{KIND}"))


def cancel(service: Service, call: Call) -> Json:
    """POST …/customJobs/ID:cancel; a job that is ending or has ended stays as it is."""
    job = service.store.get(_name(call))
    if job["state"] in ("JOB_STATE_PENDING", "JOB_STATE_RUNNING"):
        _cancel(service, job["name"], grace_seconds=CANCEL_GRACE_SECONDS)
    return {}


def delete(service: Service, call: Call) -> Json:
    """DELETE …/customJobs/ID removes the job and its logs, never what it wrote elsewhere."""
    name = _name(call)
    with service.store.atomic():
        job = service.store.get(name)
        if job["state"] in UNFINISHED_STATES:
            raise failed_precondition(
                f"{name} is in state {job['state']}; cancel it, or wait for its end, to delete it."
            )
        service.store.delete(name)
    shutil.rmtree(job_folder(service, call.args["id"]), ignore_errors=True)
    return operations.finished(
        service, name, metadata_type="DeleteOperationMetadata", response_type="", response={}
    )


def recover(service: Service) -> None:
    """Settles what an earlier service left unfinished; its processes ended with it."""
    jobs = service.store.list_kind(KIND)
    for job in jobs:
        if job["state"] in UNFINISHED_STATES:
            folder = job_folder(service, _id(job["name"]))
            _record_end(service, job["name"], _state_left_in(folder))
    known = {_id(job["name"]) for job in jobs}
    for folder in (service.root / "jobs").glob("*"):
        if folder.name not in known:  # a deletion was interrupted
            shutil.rmtree(folder, ignore_errors=True)


def close(service: Service) -> None:
    """Cancels the running jobs and waits until their end is recorded."""
    live = list(service.running.items())
    running = {name: job for name, job in live if isinstance(job, RunningJob)}
    for name in running:
        _cancel(service, name, grace_seconds=CLOSE_GRACE_SECONDS)
    for job in running.values():
        job.watcher.join(CLOSE_GRACE_SECONDS + processes.STOP_MARGIN_SECONDS)


def job_folder(service: Service, job_id: str) -> Path:
    """ROOT/jobs/ID: logs and the state of the processes; the replicas' working directory."""
    return service.root / "jobs" / job_id


def is_unfinished(job: Json) -> bool:
    """Whether the job has not reached its last state."""
    return job["state"] in UNFINISHED_STATES


def _make_output_dir(plan: JobPlan) -> None:
    if plan.output_dir is None:
        return
    try:
        plan.output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise invalid_argument(
            f'jobSpec.baseOutputDirectory.outputUriPrefix "{plan.output_dir}" cannot be created: '
            f"{error.strerror}."
        ) from None


def _launch(service: Service, call: Call, *, name: str, plan: JobPlan) -> None:
    """Starts the processes and the thread that watches them; if it cannot, the job has failed."""
    folder = job_folder(service, _id(name))
    ports: list[int] = []
    try:
        ports = POOL.take(plan.num_replicas)
        env = _common_env(service, call, job_id=_id(name))
        specs = process_specs(plan, folder=folder, ports=ports, common_env=env)
        group = processes.start(
            folder,
            specs,
            timeout_seconds=plan.timeout_seconds,
            has_private_network=plan.num_replicas > 1,
            max_restarts=plan.max_restarts,
            restarts_whole_group=plan.restarts_whole_job,
        )
    except (OSError, ValueError, ApiError) as error:
        POOL.give_back(ports)
        _record_end(service, name, {"state": "failed", "message": f"could not start: {error}"})
        return
    watcher = threading.Thread(
        target=_watch, args=(service, name, group, ports), name=f"job-{_id(name)}", daemon=True
    )
    service.running[name] = RunningJob(group, watcher)
    watcher.start()


def _common_env(service: Service, call: Call, *, job_id: str) -> dict[str, str]:
    return {
        "CLOUD_ML_JOB_ID": job_id,
        "CLOUD_ML_PROJECT_ID": call.args["project"],
        "VERTEX_EMULATOR_HOST": service.url.removeprefix("http://"),
    }


def _watch(service: Service, name: str, group: processes.Group, ports: list[int]) -> None:
    try:
        job = service.store.update(name, _set_running)
        if job["state"] == "JOB_STATE_CANCELLING":  # asked before there was a group to stop
            group.request_stop(CANCEL_GRACE_SECONDS)
    except Exception:
        logger.exception("The start of %s cannot be recorded", name)
    state = group.wait()
    POOL.give_back(ports)
    try:
        _record_end(service, name, state)
    except Exception:
        logger.exception("The end of %s cannot be recorded: %s", name, state)
    service.running.pop(name, None)


def _set_running(job: Json) -> None:
    if job["state"] == "JOB_STATE_PENDING":
        started = now()
        job.update(state="JOB_STATE_RUNNING", startTime=started, updateTime=started)


def _cancel(service: Service, name: str, *, grace_seconds: float) -> None:
    def change(job: Json) -> None:
        if is_unfinished(job):
            job.update(state="JOB_STATE_CANCELLING", updateTime=now())

    service.store.update(name, change)
    running = service.running.get(name)
    if running:
        running.group.request_stop(grace_seconds)


def _record_end(service: Service, name: str, state: Json) -> None:
    job_state, code = OUTCOMES[state["state"]]
    ended = now()

    def change(job: Json) -> None:
        job.update(state=job_state, endTime=ended, updateTime=ended)
        if code:
            job["error"] = {"code": RPC_CODES[code], "message": state["message"]}

    service.store.update(name, change)
    logger.info("%s ended: %s %s", name, job_state, state["message"])


def _state_left_in(folder: Path) -> Json:
    """How a group ended whose service is gone: by itself just before, or with it."""
    if not processes.await_end(folder, timeout_seconds=ORPHANS_TIMEOUT_SECONDS):
        logger.warning("The processes of %s have not ended yet", folder)
    state: dict[str, Any] = {}
    try:
        state = processes.read_state(folder)
    except (OSError, ValueError) as error:
        logger.warning("The state in %s cannot be read: %s", folder, error)
    if state.get("state", "running") == "running" or state["message"] == INTERRUPTED:
        return {"state": "interrupted", "message": INTERRUPTED}
    return state


def _name(call: Call) -> str:
    return f"{call.parent}/{KIND}/{call.args['id']}"


def _id(name: str) -> str:
    return name.rpartition("/")[2]


_COLLECTION = f"projects/<project>/locations/<location>/{KIND}"
ROUTES = [
    Route("POST", _COLLECTION, create),
    Route("GET", _COLLECTION, list_jobs),
    Route("GET", f"{_COLLECTION}/<id>", get),
    Route("DELETE", f"{_COLLECTION}/<id>", delete),
    Route("POST", f"{_COLLECTION}/<id>:cancel", cancel),
]
