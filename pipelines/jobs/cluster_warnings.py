"""Warnings about settings of a cluster that have no effect where it runs."""

import logging

from components.plan_training.shape import Shape
from trainer.cluster.roles import computing_roles
from trainer.runtime.cores import machine_cores

logger = logging.getLogger(__name__)


def warn_of_local_limits(cluster: Shape) -> None:
    """Warn of GPUs and persistent resources, which local replicas do not use, and of few cores."""
    gpus = [str(pool.machine.accelerator) for pool in cluster.pools() if pool.machine.accelerator]
    if gpus:
        logger.warning(
            "the cluster has %s per replica; on this machine replicas compute on CPUs",
            " and ".join(dict.fromkeys(gpus)),
        )
    if cluster.persistent_resource:
        logger.warning(
            "the persistent resource %s is one of Vertex AI; on this machine it has no effect",
            cluster.persistent_resource,
        )
    roles = computing_roles(cluster.strategy)
    num_computing = sum(pool.count for pool in cluster.pools() if pool.role in roles)
    num_cores = machine_cores()
    if num_computing > num_cores:
        logger.warning(
            "%d replicas compute on the %d cores of this machine, with 1 thread each: more than %d "
            "do not train faster here",
            num_computing,
            num_cores,
            num_cores,
        )


def warn_of_restarts(cluster: Shape) -> None:
    """Warn that a pipeline's training step ignores `restarts: never`."""
    if cluster.restarts == "never":
        logger.warning(
            "restarts is 'never', but the training step of a pipeline always restarts lost "
            "replicas; use trainyard jobs submit for a job without restarts"
        )
