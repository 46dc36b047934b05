"""Record of a custom job: a CustomJob, validated."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from vertex_local import Json
from vertex_local.errors import invalid_argument
from vertex_local.jobs import python_package
from vertex_local.machine.files import local_path, path_problem

logger = logging.getLogger(__name__)

# Roles of worker pools 0 to 3, by their names in TF_CONFIG.
ROLES = ("chief", "worker", "ps", "evaluator")
MAX_RESTARTS = 3
DEFAULT_TIMEOUT_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True)
class WorkerPool:
    """Replicas with the same command; `index` is the position of the pool in workerPoolSpecs."""

    index: int
    num_replicas: int
    image: str
    command: tuple[str, ...]
    env: dict[str, str]

    @property
    def role(self) -> str:
        """Role of the replicas: `chief`, `worker`, `ps` or `evaluator`."""
        return ROLES[self.index]


@dataclass(frozen=True)
class JobPlan:
    """A validated CustomJob."""

    job_spec: Json
    pools: tuple[WorkerPool, ...]
    output_dir: Path | None
    timeout_seconds: float
    max_restarts: int
    restarts_whole_job: bool

    @property
    def num_replicas(self) -> int:
        """Number of replicas of all pools; each needs a port."""
        return sum(pool.num_replicas for pool in self.pools)

    @property
    def replica_names(self) -> list[str]:
        """Names of all replicas, chief first: `worker/0`."""
        return [f"{pool.role}/{i}" for pool in self.pools for i in range(pool.num_replicas)]


def plan_job(job: Json) -> JobPlan:
    """Validate a CustomJob (canonical JSON) beyond its proto.

    Raises:
        ApiError: INVALID_ARGUMENT, naming the field.
    """
    job_spec: Json = job["jobSpec"]
    scheduling: Json = job_spec.get("scheduling", {})
    return JobPlan(
        job_spec=job_spec,
        pools=tuple(worker_pools(job_spec.get("workerPoolSpecs", []))),
        output_dir=_output_dir(job_spec.get("baseOutputDirectory", {}).get("outputUriPrefix", "")),
        timeout_seconds=float(scheduling.get("timeout", "0").rstrip("s"))
        or DEFAULT_TIMEOUT_SECONDS,
        max_restarts=0 if scheduling.get("disableRetries") else MAX_RESTARTS,
        restarts_whole_job=bool(scheduling.get("restartJobOnWorkerRestart")),
    )


def worker_pools(specs: list[Json]) -> list[WorkerPool]:
    """Validate a job's pools; return those that have replicas.

    Raises:
        ApiError: INVALID_ARGUMENT, naming the field.
    """
    field = "jobSpec.workerPoolSpecs"
    if not specs or not specs[0]:
        raise invalid_argument(f"{field}[0] is required: it is the chief, with replicaCount 1.")
    num_chiefs = _num_replicas(specs[0])
    if num_chiefs != 1:
        raise invalid_argument(
            f"{field}[0].replicaCount is {num_chiefs}; it must be 1, because the first pool is the "
            f"chief. Further workers belong in {field}[1]."
        )
    return [
        _worker_pool(spec, index=index, field=f"{field}[{index}]")
        for index, spec in enumerate(specs)
        if _num_replicas(spec)
    ]


def _num_replicas(spec: Json) -> int:
    """Return the number of replicas; a missing count is 0, as in the proto."""
    return int(spec.get("replicaCount", 0))


def _worker_pool(spec: Json, *, index: int, field: str) -> WorkerPool:
    _warn_of_accelerators(spec.get("machineSpec", {}), field)
    is_package = "pythonPackageSpec" in spec
    container = _of_package(spec, field) if is_package else spec.get("containerSpec", {})
    command = container.get("command", [])
    if not command or not command[0]:
        raise invalid_argument(
            f"{field}.containerSpec.command is required: this service does not read the entry "
            "point of an image."
        )
    return WorkerPool(
        index=index,
        num_replicas=_num_replicas(spec),
        image=container.get("imageUri", ""),
        command=(*command, *container.get("args", [])),
        env={one["name"]: one.get("value", "") for one in container.get("env", [])},
    )


def _of_package(spec: Json, field: str) -> Json:
    """Return the containerSpec that installs a pool's packages and runs its module."""
    package, field = spec["pythonPackageSpec"], f"{field}.pythonPackageSpec"
    paths = [local_path(uri) for uri in package["packageUris"]]
    for uri, path in zip(package["packageUris"], paths, strict=True):
        if path is None or not path.is_file():
            problem = "is no file" if path else path_problem(uri)
            raise invalid_argument(f'{field}.packageUris "{uri}" {problem}.')
    logger.warning(
        "%s.executorImageUri %s: without --containers this service's Python stands for it",
        field,
        package["executorImageUri"],
    )
    program = ["python3", "-c", Path(python_package.__file__).read_text(encoding="utf-8")]
    packages = json.dumps(list(map(str, paths)))
    return {
        "imageUri": package["executorImageUri"],
        "command": [*program, packages, package["pythonModule"]],
        "args": package.get("args", []),
        "env": package.get("env", []),
    }


def _warn_of_accelerators(machine: Json, field: str) -> None:
    if machine.get("acceleratorCount"):
        logger.warning(
            "%s.machineSpec requests %s %s, which is ignored: replicas run on this machine",
            field,
            machine["acceleratorCount"],
            machine.get("acceleratorType", "accelerators"),
        )


def _output_dir(prefix: str) -> Path | None:
    if not prefix:
        return None
    path = local_path(prefix)
    if path is None:
        raise invalid_argument(
            f'jobSpec.baseOutputDirectory.outputUriPrefix "{prefix}" {path_problem(prefix)}.'
        )
    return path
