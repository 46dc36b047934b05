"""Shared by the spellings that list replica pools."""

from collections.abc import Sequence

from components.plan_training.findings import Findings
from components.plan_training.machines import Machine
from components.plan_training.shape import COUNT_KEYS, ReplicaPool, Shape
from trainer import Json
from trainer.cluster import roles

COMMAND = ["python", "-m", "trainer.task"]
STRATEGY_FLAG = "--strategy"


def shape_fields(pools: list[ReplicaPool], *, strategy: str = "") -> Json:
    """Return the fields of the Shape with these pools; without a strategy, infer it."""
    machines = {COUNT_KEYS[pool.role]: pool.machine for pool in pools if pool.count}
    computing = machines.get("workers") or machines.get("chief") or Machine.model_construct(type="")
    fields: Json = {
        "strategy": strategy or infer_strategy(pools),
        **{COUNT_KEYS[pool.role]: pool.count for pool in pools},
        "machine": machines.get("chief", computing).type,
        "accelerator": computing.accelerator,
    }
    shape = Shape.model_construct(**fields)  # not checked yet
    fields["machines"] = {
        COUNT_KEYS[pool.role]: pool.machine
        for pool in pools
        if pool.count and pool.machine != shape.machine_of(pool.role)
    }
    return fields


def infer_strategy(pools: list[ReplicaPool]) -> str:
    """Return the strategy of a cluster with these pools."""
    gpus = [pool.machine.accelerator for pool in pools if pool.role == "chief"]
    return roles.infer_strategy(
        {pool.role: pool.count for pool in pools},
        num_gpus=max((gpu.count for gpu in gpus if gpu), default=0),
    )


def read_strategy_flag(given: Sequence[str], name_of_args: str, findings: Findings) -> str:
    """Return the value of `--strategy` among the arguments; ignore the others with a warning."""
    strategy, ignored = "", []
    args = iter(given)
    for arg in args:
        name, equals, value = arg.partition("=")
        if name == STRATEGY_FLAG:
            strategy = value if equals else next(args, "")
        else:
            ignored.append(arg)
    if ignored:
        findings.warnings.append(
            f"{name_of_args}: {' '.join(ignored)}: ignored; give the trainer's settings to the"
            " run, as --set train.epochs=5"
        )
    return strategy


def strategy_args(shape: Shape) -> list[str]:
    """Return the argument with the strategy, or none if it follows from the pools."""
    if shape.strategy == infer_strategy(shape.pools()):
        return []
    return [f"{STRATEGY_FLAG}={shape.strategy}"]


def single_image(images: list[tuple[str, str]], findings: Findings) -> str:
    """Return the image of all replicas, from (field, image) pairs; several are an error."""
    named = [(name, image) for name, image in images if image]
    for name, image in named:
        if image != named[0][1]:
            findings.errors.append(
                f"{name} is {image!r}; all replicas must have one image, and {named[0][0]} is"
                f" {named[0][1]!r}"
            )
    return named[0][1] if named else ""
