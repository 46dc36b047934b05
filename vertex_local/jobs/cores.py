"""How the replicas of a job share this machine's cores."""

import os

Environment = dict[str, str]

# TensorFlow's threads inside an operation; read when it starts, unless the program says otherwise.
# Those between operations are left alone: with one of them a worker deadlocks.
THREADS_VARIABLE = "TF_NUM_INTRAOP_THREADS"
# In a container's env: each replica that computes is to have a core of its own, for measurements.
PIN_VARIABLE = "VERTEX_LOCAL_PIN_REPLICAS"


def computing(names: list[str]) -> list[str]:
    """Those of a job's replicas that compute: with a ps, the chief only hands out work."""
    has_servers = any(name.startswith("ps/") for name in names)
    roles = ("worker",) if has_servers else ("chief", "worker")
    return [name for name in names if name.partition("/")[0] in roles]


def cores() -> list[int]:
    """The cores that this service may use."""
    return sorted(os.sched_getaffinity(0))


def thread_variables(num_computing: int, *, num_cores: int) -> Environment:
    """For each replica where several share the cores, unless the service's environment says it."""
    if num_computing < 2 or THREADS_VARIABLE in os.environ:  # noqa: PLR2004
        return {}
    return {THREADS_VARIABLE: str(max(1, num_cores // num_computing))}


def pinned(names: list[str], env: Environment, available: list[int]) -> dict[str, list[int]]:
    """The core of each replica that computes, in turn, if the job asks for that; else {}."""
    if env.get(PIN_VARIABLE, "") in ("", "0"):
        return {}
    return {
        name: [available[index % len(available)]] for index, name in enumerate(computing(names))
    }
