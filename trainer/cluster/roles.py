"""Roles and strategies of a cluster, and the rules between them."""

from collections.abc import Mapping

# In the order of Vertex AI's worker pools.
ROLES = ("chief", "worker", "ps", "evaluator")
# The roles in TF_CONFIG's `cluster`: an evaluator is a task of the job, but not in its cluster.
CLUSTER_ROLES = ("chief", "worker", "ps")
# The roles of each strategy. An evaluator may be added to any of them.
STRATEGIES = {
    "single": ("chief",),
    "mirrored": ("chief",),
    "multi_worker_mirrored": ("chief", "worker"),
    "parameter_server": ("chief", "worker", "ps"),
}
# Far above any quota: a larger number is a typing error, which must not start as many processes.
MAX_REPLICAS = 500
_AT_LEAST = {
    "chief": "a chief: set it to 1",
    "worker": "at least one worker: set it to 1 or more",
    "ps": "at least one ps: set it to 1 or more",
}


def is_synchronous_cluster(strategy: str) -> bool:
    """Return whether several replicas wait for each other at every step: one lost stops all."""
    return strategy == "multi_worker_mirrored"


def is_asynchronous(strategy: str) -> bool:
    """Return whether each worker trains at its own pace, on steps that the chief hands out."""
    return strategy == "parameter_server"


def computing_roles(strategy: str) -> tuple[str, ...]:
    """Return the roles whose replicas compute gradients, in the order of their ranks."""
    return ("worker",) if is_asynchronous(strategy) else ("chief", "worker")


def max_gpus(strategy: str, role: str) -> int | None:
    """Return how many GPUs of its machine a replica can use; None for all of them."""
    if role == "ps":
        return 0
    return 1 if role == "evaluator" or strategy in ("single", "parameter_server") else None


def infer_strategy(counts: Mapping[str, int], *, num_gpus: int = 0) -> str:
    """Return the strategy of a cluster from its replicas by role, and the GPUs of its chief."""
    if counts.get("ps"):
        return "parameter_server"
    if counts.get("worker"):
        return "multi_worker_mirrored"
    return "mirrored" if num_gpus > 1 else "single"


def find_role_errors(
    strategy: str, counts: Mapping[str, int], *, names: Mapping[str, str]
) -> list[str]:
    """Return why these replicas, counted by ROLES, cannot train by the strategy; [] if they can.

    `names` has what the user calls the number of each role and, as "strategy", the strategy.
    """
    num_chiefs, num_workers = counts["chief"], counts["worker"]
    # Worker 0 of a synchronous cluster can be its chief.
    can_lack_chief = is_synchronous_cluster(strategy) and num_workers > 0
    errors = []
    for role in CLUSTER_ROLES:
        count = f"{names[role]} is {counts[role]}"
        has_role = role in STRATEGIES[strategy]
        if counts[role] and not has_role:
            strategies = " or ".join(
                repr(name) for name, roles in STRATEGIES.items() if role in roles
            )
            errors.append(
                f"{count}, but strategy {strategy!r} has no {role}: set it to 0, or"
                f" {names['strategy']} to {strategies}"
            )
        elif has_role and not counts[role] and not (role == "chief" and can_lack_chief):
            errors.append(f"{count}, but strategy {strategy!r} needs {_AT_LEAST[role]}")
    if num_chiefs > 1:
        errors.append(
            f"{names['chief']} is {num_chiefs}; it must be 1, further replicas belong in"
            f" {names['worker']}"
        )
    if can_lack_chief and not num_chiefs and num_workers == 1:
        errors.append(
            f"{names['chief']} is 0 and {names['worker']} is 1, which makes one replica; set"
            f" {names['worker']} to 2 or more"
        )
    if counts["evaluator"] > 1:
        errors.append(
            f"{names['evaluator']} is {counts['evaluator']}; set it to 1: one evaluator measures"
            " all checkpoints"
        )
    return errors
