"""Shares of this machine's cores for the replicas of a job."""

import os

Environment = dict[str, str]

# TensorFlow reads this when it starts. Its inter-op threads are not limited: with one of them a
# worker deadlocks.
THREADS_VARIABLE = "TF_NUM_INTRAOP_THREADS"
# In containerSpec.env of the first pool: pin each computing replica to a core, for measurements.
PIN_VARIABLE = "VERTEX_LOCAL_PIN_REPLICAS"


def computing(names: list[str]) -> list[str]:
    """Return the replicas that compute: workers, and the chief unless the job has a ps."""
    has_servers = any(name.startswith("ps/") for name in names)
    roles = ("worker",) if has_servers else ("chief", "worker")
    return [name for name in names if name.partition("/")[0] in roles]


def cores() -> list[int]:
    """Return the cores that this service may use."""
    return sorted(os.sched_getaffinity(0))


def thread_variables(num_computing: int, *, num_cores: int) -> Environment:
    """Return the variable that limits threads, if several replicas share the cores.

    Nothing if the environment of the service sets it.
    """
    if num_computing < 2 or THREADS_VARIABLE in os.environ:  # noqa: PLR2004
        return {}
    return {THREADS_VARIABLE: str(max(1, num_cores // num_computing))}


def pinned(names: list[str], env: Environment, available: list[int]) -> dict[str, list[int]]:
    """Return the cores of each computing replica, round-robin, if the job sets PIN_VARIABLE."""
    if env.get(PIN_VARIABLE, "") in ("", "0"):
        return {}
    return {
        name: [available[index % len(available)]] for index, name in enumerate(computing(names))
    }
