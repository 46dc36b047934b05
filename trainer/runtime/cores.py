"""The cores that this replica may compute on."""

import os

# TensorFlow's own; `vertex_local` sets it for the replicas of a job that share a machine.
SHARE_VARIABLE = "TF_NUM_INTRAOP_THREADS"


def machine_cores() -> int:
    """Return the number of cores that this process may use; macOS restricts none."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def num_cores(*, num_sharing: int = 1) -> int:
    """Return this replica's share of the cores, at least 1.

    It is the number in `SHARE_VARIABLE`, or else an equal share of `num_sharing` replicas.
    """
    count = machine_cores()
    share = os.environ.get(SHARE_VARIABLE, "")
    is_given = share.isdecimal() and int(share) > 0
    return min(count, int(share)) if is_given else max(1, count // num_sharing)
