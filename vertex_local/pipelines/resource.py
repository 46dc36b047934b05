"""pipelineJobs: each run has a process of its own, its runner (`runner.py`).

If that process ends before the pipeline, another one runs the exit tasks (`interrupted.py`).
"""

import json
import re
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from vertex_local import Json
from vertex_local.api import comments, operations, protos
from vertex_local.api.pages import list_page, read_mask
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.routes import Call, routes_of
from vertex_local.api.run_lifecycle import RunKind, Start, outcome_by
from vertex_local.api.service import Service
from vertex_local.errors import already_exists, failed_precondition, invalid_argument, rpc_status
from vertex_local.machine import buckets
from vertex_local.machine.files import local_path
from vertex_local.pipelines import interrupted, journal
from vertex_local.pipelines import record as pipeline_record
from vertex_local.pipelines.gcpc.requests import RUN_LABELS_VARIABLE
from vertex_local.pipelines.interrupted import BILLING_LABEL
from vertex_local.pipelines.journal import run_context
from vertex_local.pipelines.run_state import EXIT_TASKS_SECONDS
from vertex_local.pipelines.runner import JOB_FILE
from vertex_local.processes import group as processes
from vertex_local.processes.launch import Launch
from vertex_local.processes.supervisor import INTERRUPTED

TASK = re.compile(r"[a-z][-a-z0-9]{0,127}")
RUNNER = "pipeline"
LOG_FILE = "pipeline.log"
# State and error code by the state of the runner's group, if the journal has no end.
OUTCOMES = {
    "succeeded": ("FAILED", "INTERNAL"),
    "failed": ("FAILED", "INTERNAL"),
    "timed_out": ("FAILED", "DEADLINE_EXCEEDED"),
    "cancelled": ("CANCELLED", "CANCELLED"),
    "interrupted": ("FAILED", "ABORTED"),
}
STEP_CODES = {"FAILED": "FAILED_PRECONDITION", "CANCELLED": "CANCELLED"}


def _outcome(folder: Path, group_state: Json) -> tuple[str, Json]:
    """Return a run's last state and error: from its journal, else from the runner's group."""
    events = journal.read(folder)
    ended = journal.last(events, "pipeline_ended")
    if ended is None:
        return outcome_by(OUTCOMES, group_state)
    if ended["state"] == "SUCCEEDED":
        return "SUCCEEDED", {}
    code = STEP_CODES[ended["state"]]
    if ended["state"] == "FAILED" and journal.last(events, journal.INTERRUPTION):
        code = "ABORTED"
    return ended["state"], rpc_status(code, ended["error"])


def _outlives_service(folder: Path, _group_state: Json) -> bool:
    return interrupted.is_interrupted(folder) and interrupted.has_exit_tasks(folder)


def _follow_up(service: Service, name: str, group_state: Json) -> Start | None:
    """Settle an interrupted run; return the start of a runner for its exit tasks, if it has any."""
    folder = KIND.folder_of(service, name)
    if not interrupted.is_interrupted(folder):
        return None
    run = service.store.get(name)
    interrupted.cancel_unfinished(service, run, folder)
    service.store.reserve.require_space()  # for the journal and the exit tasks
    is_cancelled = run["state"] == f"{KIND.prefix}CANCELLING"
    may_start = interrupted.journal_interruption(
        folder, group_state=group_state, is_cancelled=is_cancelled
    )
    if not may_start or not interrupted.has_exit_tasks(folder):
        return None
    job = json.loads((folder / JOB_FILE).read_text())
    return lambda: _start_runner(service, job, folder, timeout_seconds=STOP_SECONDS)


# For stopping the running steps and jobs, and then for the exit tasks.
STOP_SECONDS = EXIT_TASKS_SECONDS + 45.0
KIND = RunKind(
    collection="pipelineJobs",
    folder="pipelines",
    prefix="PIPELINE_STATE_",
    outcome=_outcome,
    cancel_grace_seconds=STOP_SECONDS,
    close_grace_seconds=10.0,
    outlives_service=_outlives_service,
    follow_up=_follow_up,
    details=lambda folder: run_context(journal.read(folder)),
)
recover, close = KIND.recover, KIND.close


def create(service: Service, call: Call) -> Json:
    """POST …/pipelineJobs?pipelineJobId=ID: start the run; return it as PENDING."""
    require_kfp()
    job_id, body = _job_id(service, call), protos.parse("PipelineJob", call.body)
    checked = plan(service, body)
    record = insert(service, f"{call.parent}/{KIND.collection}/{job_id}", body)
    launch(service, record | checked)
    return record


def require_kfp() -> None:
    """Check that this service can run pipelines; it serves everything else without kfp.

    Raises:
        ApiError: FAILED_PRECONDITION, with the command that installs kfp.
    """
    if not any(metadata.distributions(name="kfp")):
        raise failed_precondition(
            "kfp is not installed, which pipelines need; install it, then start this service "
            f"again: {sys.executable} -m pip install kfp"
        )


def get(service: Service, call: Call) -> Json:
    """GET …/pipelineJobs/ID, with its tasks; lists omit them, as on Vertex AI."""
    job = service.store.get(call.name(KIND.collection))
    return with_tasks(service, service.store.with_spec(job))


def list_runs(service: Service, call: Call) -> Json:
    """GET …/pipelineJobs; specifications are read only for a `readMask` that has them, or none."""
    fields = {path[0] for path in read_mask(call)}
    has_specs = not fields or fields & {"pipelineSpec", "pipeline_spec", "*"}
    view = service.store.with_spec if has_specs else dict
    return list_page(service, call, KIND.collection, view=view)


def with_tasks(service: Service, job: Json) -> Json:
    """Return a run with the present state of its tasks, as its journal has it."""
    is_unfinished = KIND.is_unfinished(job)
    error = "" if is_unfinished else job.get("error", {}).get("message", INTERRUPTED)
    folder = KIND.folder_of(service, job["name"])
    events = journal.read(folder)
    if not events and job["state"] == f"{KIND.prefix}SUCCEEDED":
        journal.warn_of_loss(folder)
    details = journal.task_details(events, interrupted=error)
    for detail in details:
        if "startTime" in detail:
            main_job = step_job(job["name"], detail["taskUniqueName"])
            detail["executorDetail"] = {"containerDetail": {"mainJob": main_job}}
        if job.get("runtimeConfig", {}).get("gcsOutputDirectory", "").startswith(buckets.SCHEME):
            _name_buckets(detail)
    job_detail = {**job.get("jobDetail", {}), "taskDetails": details}
    return {**job, "jobDetail": job_detail} if details else job


def _name_buckets(detail: Json) -> None:
    """Name the artifacts in buckets by their gs:// addresses, as a run with such a root does."""
    for kind in ("inputs", "outputs"):
        for made in detail.get(kind, {}).values():
            for artifact in made["artifacts"]:
                artifact["uri"] = buckets.uri_of(artifact["uri"])


def batch_delete(service: Service, call: Call) -> Json:
    """POST …/pipelineJobs:batchDelete: delete all of these runs, or none."""
    runs = _named(service, call, "BatchDeletePipelineJobsRequest")
    if unfinished := [run["name"] for run in runs if KIND.is_unfinished(run)]:
        raise failed_precondition(f"{', '.join(unfinished)} have not ended; cancel them first.")
    for run in runs:
        KIND.remove(service, run["name"])
    return _batch_done(service, call, "Delete", runs, "BatchDeletePipelineJobsResponse")


def batch_cancel(service: Service, call: Call) -> Json:
    """POST …/pipelineJobs:batchCancel: cancel all of these runs."""
    runs = _named(service, call, "BatchCancelPipelineJobsRequest")
    for run in runs:
        KIND.request_cancel(service, run)
    method = "BatchCancelPipelineJobs"
    return _batch_done(service, call, method, runs, f"{method}Response")


def _named(service: Service, call: Call, message: str) -> list[Json]:
    request = protos.parse(message, {**call.body, "parent": call.parent})
    for name in request["names"]:
        if not name.startswith(f"{call.parent}/{KIND.collection}/"):
            raise invalid_argument(f'names: "{name}" is no pipeline job of {call.parent}.')
    return [service.store.get(name) for name in dict.fromkeys(request["names"])]


def _batch_done(
    service: Service, call: Call, method: str, runs: list[Json], response_type: str
) -> Json:
    response = {"pipelineJobs": [service.store.find(run["name"]) or run for run in runs]}
    return operations.finished(service, call.parent, method, response, response_type=response_type)


def step_job(run_name: str, task: str) -> str:
    """Return the name of a step's custom job; as on Vertex AI, but here it has only a log."""
    run = ResourcePath.from_name(run_name)
    return replace(run, collection="customJobs", id=f"{run.id}.{task}").name


def step_log(service: Service, run_name: str, job_id: str) -> Path | None:
    """Return the log of a step by the id of its job; None if it is not a step of this run."""
    folder = KIND.folder_of(service, run_name)
    run, dot, task = job_id.partition(".")
    path = folder / "tasks" / f"{task}.log"
    is_step = dot and run == folder.name and TASK.fullmatch(task)
    return path if is_step and path.is_file() else None


def _job_id(service: Service, call: Call) -> str:
    job_id = call.query.get("pipelineJobId") or f"pipeline-{service.store.next_id()}"
    comments.require("CreatePipelineJobRequest", pipelineJobId=job_id)
    return job_id


def plan(service: Service, body: Json) -> Json:
    """Return the checked specification and parameters of a PipelineJob, for its runner.

    With an engine, also checks the images and the folder of the pipeline root.

    Raises:
        ApiError: INVALID_ARGUMENT, naming the field.
    """
    checked = pipeline_record.plan(
        body, runs_containers=bool(service.engine), runs_host_commands=service.runs_host_commands
    )
    if service.engine:
        for image, field in pipeline_record.images(checked["pipelineSpec"]).items():
            service.engine.check_image(image, field=field)
        root = local_path(checked["runtimeConfig"]["gcsOutputDirectory"])
        service.engine.check_folder(str(root), field="runtimeConfig.gcsOutputDirectory")
    return checked


def insert(service: Service, name: str, body: Json) -> Json:
    """Store a run, to be started with `launch`; return its record."""
    labels = {**body.get("labels", {}), BILLING_LABEL: service.store.next_id()}
    project = ResourcePath.from_name(name).project
    account = f"{project}-compute@developer.gserviceaccount.com"  # PipelineJob's default
    record = KIND.new_record(name, {"serviceAccount": account, **body, "labels": labels})
    with service.store.atomic():
        service.store.insert(record["name"], record)
        # The folder is named by the id alone, so that users find it.
        if (folder := KIND.folder_of(service, record["name"])).exists():
            raise already_exists(f"The id is used by another project or location: {folder}")
        folder.mkdir(parents=True)
    return record


def launch(service: Service, job: Json) -> None:
    """Start the runner of a stored run; `job` is its record with its plan."""
    folder = KIND.folder_of(service, job["name"])

    def start() -> processes.Group:
        (folder / JOB_FILE).write_text(json.dumps(job))
        return _start_runner(service, job, folder, timeout_seconds=None)

    KIND.watch(service, job["name"], start)


def _start_runner(
    service: Service, job: Json, folder: Path, *, timeout_seconds: float | None
) -> processes.Group:
    return processes.start(
        folder,
        [_runner(service, job, folder)],
        timeout_seconds=timeout_seconds,
        launch=Launch(warm=service.warm, starts_groups=True),
    )


def _runner(service: Service, job: Json, folder: Path) -> processes.ProcessSpec:
    module = "vertex_local.pipelines.runner"
    cache_dir = service.root / "step_cache"
    options = ["--cache-dir", str(cache_dir), "--parallel", str(service.num_parallel)]
    if service.engine:
        options += ["--engine", service.engine.to_json()]
    return processes.ProcessSpec(
        name=RUNNER,
        command=["python", "-m", module, str(folder), *options],
        env={
            **service.variables(ResourcePath.from_name(job["name"])),
            RUN_LABELS_VARIABLE: json.dumps(job.get("labels", {})),
        },
        cwd=str(folder),  # in the service's folder a user's modules could hide the steps'
        log_path=folder / LOG_FILE,
    )


BATCHES = {"POST :batchDelete": batch_delete, "POST :batchCancel": batch_cancel}
ROUTES = [*KIND.routes(create, get, list_runs), *routes_of(KIND.collection, BATCHES)]
