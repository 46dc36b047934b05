"""Quota of a region that a training job needs: the sum over its pools, by Vertex AI's metrics.

https://cloud.google.com/vertex-ai/docs/quotas
"""

import re
from collections import Counter

from components.plan_training.shape import Shape

PREFIX = "custom_model_training_"
SHARED = ("n1", "e2")  # families whose CPUs are counted together
_CPUS = re.compile(r"(?P<family>[a-z]+\d+)-(?:standard|highmem|highcpu)-(?P<cpus>\d+)")


def quota_needed(shape: Shape) -> dict[str, int]:
    """Return the number of CPUs and GPUs by metric, such as `custom_model_training_cpus`.

    Only GPUs are counted of machines whose names do not tell their CPUs, as `a2-highgpu-1g`. A job
    on a persistent resource starts no machine and needs no quota.
    """
    if shape.persistent_resource:
        return {}
    needed: Counter[str] = Counter()
    kind = f"{PREFIX}preemptible_" if shape.spot else PREFIX
    for pool in shape.pools():
        if match := _CPUS.fullmatch(pool.machine.type):
            family = "" if match["family"] in SHARED else f"{match['family']}_"
            needed[f"{kind}{family}cpus"] += pool.count * int(match["cpus"])
        if gpus := pool.machine.accelerator:
            name = gpus.type.lower().replace("tesla_", "")
            needed[f"{kind}{name}_gpus"] += pool.count * gpus.count
    return dict(needed)
