"""From a CustomJob's worker pools to the processes of its cluster: checks and pure functions.

The environment is Vertex AI's (cloud.google.com/vertex-ai/docs/training/distributed-training and
…/code-requirements): TF_CONFIG, CLUSTER_SPEC, AIP_MODEL_DIR and its like, CLOUD_ML_JOB_ID.
"""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from vertex_local import cpus
from vertex_local.errors import invalid_argument
from vertex_local.processes import ProcessSpec

logger = logging.getLogger(__name__)

Json = dict[str, Any]
Addresses = dict[int, list[str]]

HOST = "127.0.0.1"
# What worker pools 0 to 3 do, and what TF_CONFIG calls them.
ROLES = ("chief", "worker", "ps", "evaluator")
# They serve the others, and end when the chief does.
SERVICE_ROLES = ("ps", "evaluator")
STATEFUL_ROLES = ("chief", "ps")
MAX_RESTARTS = 3
DEFAULT_TIMEOUT_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True)
class WorkerPool:
    """Replicas that run one command; `index` is the pool's place in workerPoolSpecs."""

    index: int
    num_replicas: int
    command: tuple[str, ...]
    env: dict[str, str]

    @property
    def role(self) -> str:
        """`chief`, `worker`, `ps` or `evaluator`."""
        return ROLES[self.index]


@dataclass(frozen=True)
class JobPlan:
    """A CustomJob that has passed the checks."""

    job_spec: Json
    pools: tuple[WorkerPool, ...]
    output_dir: Path | None
    timeout_seconds: float
    max_restarts: int
    restarts_whole_job: bool

    @property
    def num_replicas(self) -> int:
        """Of all pools together; each needs a port."""
        return sum(pool.num_replicas for pool in self.pools)

    @property
    def replica_names(self) -> list[str]:
        """Of every replica, chief first: `worker/0`."""
        return [f"{pool.role}/{i}" for pool in self.pools for i in range(pool.num_replicas)]


def plan_job(job: Json) -> JobPlan:
    """Checks a CustomJob (canonical JSON) beyond what its proto says.

    Raises:
        ApiError: INVALID_ARGUMENT, naming the field.
    """
    if not job.get("displayName"):
        raise invalid_argument("displayName is required; give the job a name to show.")
    job_spec: Json = job.get("jobSpec", {})
    scheduling: Json = job_spec.get("scheduling", {})
    return JobPlan(
        job_spec=job_spec,
        pools=tuple(_worker_pools(job_spec.get("workerPoolSpecs", []))),
        output_dir=_output_dir(job_spec.get("baseOutputDirectory", {}).get("outputUriPrefix", "")),
        timeout_seconds=_timeout_seconds(scheduling.get("timeout", "")),
        max_restarts=0 if scheduling.get("disableRetries") else MAX_RESTARTS,
        restarts_whole_job=bool(scheduling.get("restartJobOnWorkerRestart")),
    )


def process_specs(
    plan: JobPlan, *, folder: Path, ports: list[int], common_env: dict[str, str]
) -> list[ProcessSpec]:
    """The processes of a job, chief first; `common_env` is given to each of them."""
    addresses = assign_addresses(plan.pools, ports)
    names = plan.replica_names
    cores = cpus.cores()
    pinned = cpus.pinned(names, plan.pools[0].env, cores)
    threads = cpus.thread_variables(len(cpus.computing(names)), num_cores=len(cores))
    return [
        ProcessSpec(
            name=f"{pool.role}/{replica}",
            command=list(pool.command),
            env={
                **threads,
                **pool.env,
                **common_env,
                **output_variables(plan.output_dir),
                **cluster_variables(plan, addresses, pool=pool, replica=replica),
            },
            cwd=str(folder),
            log_path=folder / f"{task_name(pool.index, replica)}.log",
            is_primary=pool.index == 0,
            is_service=pool.role in SERVICE_ROLES,
            holds_state=pool.role in STATEFUL_ROLES,
            cores=tuple(pinned.get(f"{pool.role}/{replica}", ())),
        )
        for pool in plan.pools
        for replica in range(pool.num_replicas)
    ]


def task_name(pool_index: int, replica: int) -> str:
    """What Cloud Logging calls a replica: `workerpool1-0`."""
    return f"workerpool{pool_index}-{replica}"


def assign_addresses(pools: tuple[WorkerPool, ...], ports: list[int]) -> Addresses:
    """`host:port` of every replica, by pool index."""
    rest = iter(ports)
    return {
        pool.index: [f"{HOST}:{next(rest)}" for _ in range(pool.num_replicas)] for pool in pools
    }


def cluster_variables(
    plan: JobPlan, addresses: Addresses, *, pool: WorkerPool, replica: int
) -> dict[str, str]:
    """TF_CONFIG and CLUSTER_SPEC, which each replica is given, also where it is the only one."""
    cluster_spec = {
        "cluster": {f"workerpool{index}": hosts for index, hosts in addresses.items()},
        "environment": "cloud",
        "task": {"type": f"workerpool{pool.index}", "index": replica},
        "job": plan.job_spec,
    }
    tf_config = tf_config_for(addresses, role=pool.role, replica=replica)
    return {"TF_CONFIG": json.dumps(tf_config), "CLUSTER_SPEC": json.dumps(cluster_spec)}


def tf_config_for(addresses: Addresses, *, role: str, replica: int) -> Json:
    """TensorFlow's view of the cluster, of which an evaluator is never a part."""
    cluster = {
        ROLES[index]: hosts for index, hosts in addresses.items() if ROLES[index] != "evaluator"
    }
    return {"cluster": cluster, "environment": "cloud", "task": {"type": role, "index": replica}}


def output_variables(output_dir: Path | None) -> dict[str, str]:
    """Where to write, below the base output directory; nothing without one."""
    if output_dir is None:
        return {}
    return {
        "AIP_MODEL_DIR": f"{output_dir}/model/",
        "AIP_CHECKPOINT_DIR": f"{output_dir}/checkpoints/",
        "AIP_TENSORBOARD_LOG_DIR": f"{output_dir}/logs/",
    }


def _worker_pools(specs: list[Json]) -> list[WorkerPool]:
    field = "jobSpec.workerPoolSpecs"
    if not specs or not specs[0]:
        raise invalid_argument(f"{field}[0] is required: it is the chief, with replicaCount 1.")
    if len(specs) > len(ROLES):
        raise invalid_argument(
            f"{field} has {len(specs)} pools; at most {len(ROLES)} are allowed: {', '.join(ROLES)}."
        )
    num_chiefs = _num_replicas(specs[0], f"{field}[0]")
    if num_chiefs != 1:
        raise invalid_argument(
            f"{field}[0].replicaCount is {num_chiefs}; it must be 1, for the first pool is the "
            f"chief. Further workers belong in {field}[1]."
        )
    return [
        _worker_pool(spec, index=index, field=f"{field}[{index}]")
        for index, spec in enumerate(specs)
        if _num_replicas(spec, f"{field}[{index}]")
    ]


def _num_replicas(spec: Json, field: str) -> int:
    """An absent count is 0, as in the proto, and makes the pool an empty one."""
    count = int(spec.get("replicaCount", 0))
    if count < 0:
        raise invalid_argument(f"{field}.replicaCount is {count}; it must not be negative.")
    return count


def _worker_pool(spec: Json, *, index: int, field: str) -> WorkerPool:
    if "pythonPackageSpec" in spec:
        raise invalid_argument(
            f"{field}.pythonPackageSpec is not supported by this service; give the command in "
            "containerSpec.command, such as python -m package.module."
        )
    _warn_of_accelerators(spec.get("machineSpec", {}), field)
    container = spec.get("containerSpec", {})
    command = container.get("command", [])
    if not command or not command[0]:
        raise invalid_argument(
            f"{field}.containerSpec.command is missing: this service runs commands on this "
            "machine, not images, and cannot know an image's entry point. Give the command."
        )
    return WorkerPool(
        index=index,
        num_replicas=_num_replicas(spec, field),
        command=(*command, *container.get("args", [])),
        env=dict(_variable(one, field) for one in container.get("env", [])),
    )


def _warn_of_accelerators(machine: Json, field: str) -> None:
    if machine.get("acceleratorCount"):
        logger.warning(
            "%s.machineSpec asks for %s %s: its replicas run on this machine as it is",
            field,
            machine["acceleratorCount"],
            machine.get("acceleratorType", "accelerators"),
        )


def _variable(variable: Json, field: str) -> tuple[str, str]:
    name, value = variable.get("name", ""), variable.get("value", "")
    if not name or "=" in name or "\0" in name + value:
        raise invalid_argument(
            f'{field}.containerSpec.env: the name "{name}" is not valid; it must not be empty nor '
            'contain "=", and neither name nor value a NUL.'
        )
    return name, value


def _output_dir(prefix: str) -> Path | None:
    if not prefix:
        return None
    parts = urlsplit(prefix)
    is_file_uri = parts.scheme == "file" and parts.netloc in ("", "localhost")
    path = unquote(parts.path) if is_file_uri else prefix
    if not path.startswith("/") or "\0" in path:
        raise invalid_argument(
            f'jobSpec.baseOutputDirectory.outputUriPrefix "{prefix}" is not a folder of this '
            "machine; give an absolute path or file:///path (this service does not write to gs://)."
        )
    return Path(path)


def _timeout_seconds(duration: str) -> float:
    seconds = float(duration.removesuffix("s") or 0)
    if seconds < 0:
        raise invalid_argument(
            f'jobSpec.scheduling.timeout "{duration}" is not valid; it must not be negative.'
        )
    return seconds or DEFAULT_TIMEOUT_SECONDS
