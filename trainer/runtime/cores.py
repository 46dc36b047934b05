"""The cores that this replica may compute on."""

import os

# TensorFlow's own; `vertex_local` sets it for the replicas of a job that share a machine.
SHARE_VARIABLE = "TF_NUM_INTRAOP_THREADS"


def num_cores() -> int:
    """Return this replica's share of the cores: fewer if other replicas compute on them."""
    count = len(os.sched_getaffinity(0))
    share = os.environ.get(SHARE_VARIABLE, "")
    return min(count, int(share)) if share.isdecimal() and int(share) else count
