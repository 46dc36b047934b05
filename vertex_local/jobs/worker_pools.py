"""A CustomJob's workerPoolSpecs: what each pool runs, checked."""

import logging
from dataclasses import dataclass

from vertex_local.errors import invalid_argument
from vertex_local.json_types import Json

logger = logging.getLogger(__name__)


# What worker pools 0 to 3 do, and what TF_CONFIG calls them.
ROLES = ("chief", "worker", "ps", "evaluator")


@dataclass(frozen=True)
class WorkerPool:
    """Replicas that run one command; `index` is the pool's place in workerPoolSpecs."""

    index: int
    num_replicas: int
    image: str
    command: tuple[str, ...]
    env: dict[str, str]

    @property
    def role(self) -> str:
        """`chief`, `worker`, `ps` or `evaluator`."""
        return ROLES[self.index]


def worker_pools(specs: list[Json]) -> list[WorkerPool]:
    """Checks a job's pools; those without replicas are left out.

    Raises:
        ApiError: INVALID_ARGUMENT, naming the field.
    """
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
            f"{field}.containerSpec.command is missing: this service runs commands, with an image "
            "or without, and does not look up an image's entry point. Give the command."
        )
    return WorkerPool(
        index=index,
        num_replicas=_num_replicas(spec, field),
        image=container.get("imageUri", ""),
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
