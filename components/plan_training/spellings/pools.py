"""From replica pools to the fields of a Shape, for the spellings that list pools."""

from typing import Any

from components.plan_training.findings import Section
from components.plan_training.machines import Machine
from components.plan_training.shape import COUNT_KEYS, ReplicaPool, Shape
from trainer.cluster import roles

STRATEGY_FLAG = "--strategy"


def shape_fields(pools: list[ReplicaPool], *, strategy: str = "") -> dict[str, Any]:
    """The fields of the Shape that has these pools; the strategy follows if it is not given."""
    counts = {COUNT_KEYS[pool.role]: pool.count for pool in pools}
    machines = {COUNT_KEYS[pool.role]: pool.machine for pool in pools if pool.count}
    strategy = strategy or infer_strategy(pools)
    computing = machines.get("workers") or machines.get("chief") or Machine(type="")
    plain: dict[str, Any] = {
        "strategy": strategy,
        **counts,
        "machine": machines.get("chief", computing).type,
        "accelerator": computing.accelerator,
    }
    usual = Shape(**plain)
    own = {
        COUNT_KEYS[pool.role]: pool.machine
        for pool in pools
        if pool.count and pool.machine != usual.machine_of(pool.role)
    }
    return plain | {"machines": own}


def infer_strategy(pools: list[ReplicaPool]) -> str:
    """What these replicas can do together."""
    gpus = [pool.machine.accelerator for pool in pools if pool.role == "chief"]
    return roles.infer_strategy(
        {pool.role: pool.count for pool in pools},
        num_gpus=max((gpu.count for gpu in gpus if gpu), default=0),
    )


def read_strategy_flag(section: Section, key: str) -> str:
    """The value of `--strategy` among the arguments; the others are not the cluster's."""
    args = section.texts(key)
    found, others = "", []
    rest = iter(args)
    for arg in rest:
        name, equals, value = arg.partition("=")
        if name == STRATEGY_FLAG:
            found = value if equals else next(rest, "")
        else:
            others.append(arg)
    if others:
        section.findings.warnings.append(
            f"{section.name(key)}: {' '.join(others)}: left out; give what is the trainer's to the"
            " run, as --set train.epochs=5"
        )
    return found


def strategy_args(shape: Shape) -> list[str]:
    """The argument that says the strategy, where it does not follow from the pools."""
    if shape.strategy == infer_strategy(shape.pools()):
        return []
    return [f"{STRATEGY_FLAG}={shape.strategy}"]
