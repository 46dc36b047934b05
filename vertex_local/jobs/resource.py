"""customJobs: each runs as a cluster of processes or containers."""

from collections.abc import Mapping
from pathlib import Path

import psutil

from vertex_local import Json
from vertex_local.api import protos
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.routes import Call, routes_of
from vertex_local.api.run_lifecycle import RunKind, outcome_by
from vertex_local.api.service import Service
from vertex_local.errors import invalid_argument, not_found
from vertex_local.jobs.record import ROLES, JobPlan, plan_job
from vertex_local.jobs.replica_env import (
    contained_specs,
    process_specs,
    task_name,
)
from vertex_local.machine.docker_engine import Engine
from vertex_local.machine.files import last_lines
from vertex_local.machine.ports import POOL
from vertex_local.processes import group as processes

# State of the group: state of the job, and google.rpc.Code of its error.
OUTCOMES = {
    "succeeded": ("SUCCEEDED", ""),
    "failed": ("FAILED", "INVALID_ARGUMENT"),
    "timed_out": ("FAILED", "DEADLINE_EXCEEDED"),
    "cancelled": ("CANCELLED", "CANCELLED"),
    "interrupted": ("FAILED", "ABORTED"),
}


# The replicas' working directory is the job's folder.
KIND = RunKind(
    collection="customJobs",
    folder="jobs",
    prefix="JOB_STATE_",
    outcome=lambda _folder, group_state: outcome_by(OUTCOMES, group_state),
)
recover, close = KIND.recover, KIND.close


def create(service: Service, call: Call) -> Json:
    """POST …/customJobs: start the job and return it as PENDING."""
    record = insert(service, call.parent, protos.parse("CustomJob", call.body))
    launch(service, record)
    return record


def insert(service: Service, parent: str, job: Json) -> Json:
    """Check and store a job, to be started with `launch`; return its record."""
    require_persistent_resource(parent, job["jobSpec"])
    plan = plan_job(job)
    if service.engine:
        _check_containers(plan, service.engine)
    _make_output_dir(plan)
    record = KIND.new_record(f"{parent}/{KIND.collection}/{service.store.next_id()}", job)
    KIND.folder_of(service, record["name"]).mkdir(parents=True)
    service.store.insert(record["name"], record)
    return record


def require_persistent_resource(parent: str, job_spec: Json) -> None:
    """Raise NOT_FOUND for a job on a persistent resource: this service has none."""
    if resource_id := job_spec.get("persistentResourceId"):
        raise not_found(f"{parent}/persistentResources/{resource_id}")


def _check_containers(plan: JobPlan, engine: Engine) -> None:
    for pool in plan.pools:
        field = f"jobSpec.workerPoolSpecs[{pool.index}].containerSpec.imageUri"
        engine.check_image(pool.image, field=field)
    if plan.output_dir:
        engine.check_folder(plan.output_dir, field="jobSpec.baseOutputDirectory.outputUriPrefix")


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


def launch(service: Service, job: Json, variables: Mapping[str, str] = {}) -> None:
    """Start the replicas of a stored job, with further environment variables."""
    plan, name = plan_job(job), ResourcePath.from_name(job["name"])
    folder = KIND.folder_of(service, job["name"])
    env = {"CLOUD_ML_JOB_ID": name.id, **service.variables(name), **variables}
    ports: list[int] = []

    def start() -> processes.Group:
        if service.engine:
            specs = contained_specs(plan, folder=folder, engine=service.engine, common_env=env)
        else:
            ports.extend(POOL.take(plan.num_replicas))
            specs = process_specs(plan, folder=folder, ports=ports, common_env=env)
        return processes.start(
            folder,
            specs,
            timeout_seconds=plan.timeout_seconds,
            has_private_network=plan.num_replicas > 1 or service.engine is not None,
            max_restarts=plan.max_restarts,
            restarts_whole_group=plan.restarts_whole_job,
            launch=service.launch,
        )

    KIND.watch(service, job["name"], start, on_end=lambda: POOL.give_back(ports))


def list_replicas(service: Service, call: Call) -> Json:
    """GET …/customJobs/ID/replicas: the replicas, chief first; {} before they are started.

    An addition to Vertex AI's API, which returns 404 here; a client then has the job's state and
    log.

    `cpuSeconds` of a process include its children that have ended. `memoryBytes` is the current
    memory, `peakMemoryBytes` the maximum of a process that has ended. `container` is the name of a
    container, which has none of these.
    """
    name = call.name(KIND.collection)
    service.store.get(name)  # raises NOT_FOUND
    folder = KIND.folder_of(service, name)
    try:
        state = processes.read_state(folder)
    except FileNotFoundError:
        return {}
    return {
        "replicas": [
            _replica(folder, name, replica) for name, replica in state["replicas"].items()
        ],
        "warnings": state.get("warnings", []),
    }


def _replica(folder: Path, name: str, state: Json) -> Json:
    role, _, index = name.partition("/")
    task = task_name(ROLES.index(role), int(index))
    lines = last_lines(folder / f"{task}.log")
    status = {
        "name": name,
        "taskName": task,
        "state": state["state"].upper(),
        "exitCode": state["exit_code"],
        "restarts": state["restarts"],
        "startTime": state["started"],
        "endTime": state["ended"],
        "cpuSeconds": state.get("cpu_seconds"),
        "peakMemoryBytes": state.get("peak_memory_bytes"),
        "lastLine": lines.rpartition("\n")[2],
        "container": state.get("container"),
        **_live_usage(state),
    }
    return {key: value for key, value in status.items() if value not in (None, "")}


def _live_usage(state: Json) -> Json:
    """Return CPU and memory of a running process of this machine."""
    if state["state"] != "running" or state.get("container"):
        return {}
    try:
        process = psutil.Process(state["pid"])
        seconds = sum(process.cpu_times()[:4])  # its own, and its ended children's
        return {"cpuSeconds": round(seconds, 2), "memoryBytes": process.memory_info().rss}
    except psutil.Error:  # it has ended
        return {}


ROUTES = [
    *KIND.routes(create),
    *routes_of(KIND.collection, {"GET /<id>/replicas": list_replicas}),
]
