"""Says when a cluster has more replicas that compute than this machine has cores."""

import logging
import os

from components.plan_training.shape import Shape
from trainer.cluster.roles import computing_roles

logger = logging.getLogger(__name__)


def warn_of_cores(cluster: Shape) -> None:
    """Says that replicas on this machine share its cores, and what each of them gets."""
    roles = computing_roles(cluster.strategy)
    num_computing = sum(pool.count for pool in cluster.pools() if pool.role in roles)
    num_cores = len(os.sched_getaffinity(0))
    if num_computing > num_cores:
        logger.warning(
            "%d replicas compute on the %d cores of this machine, on 1 thread each: more than %d "
            "train no faster here",
            num_computing,
            num_cores,
            num_cores,
        )
