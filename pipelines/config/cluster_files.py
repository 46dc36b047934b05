"""Cluster files (configs/clusters), read with their warnings; warnings about a cluster."""

import logging
from pathlib import Path

from components.plan_training.cluster_file import ClusterFile, load_cluster
from components.plan_training.shape import ClusterSpec, Shape
from trainer.cluster.roles import computing_roles
from trainer.errors import ConfigError, near_path
from trainer.runtime.cores import machine_cores

logger = logging.getLogger(__name__)


def read_cluster(path: Path) -> ClusterSpec:
    """Return the cluster of a file (configs/clusters) in any spelling, and log its warnings."""
    file = read_cluster_file(path)
    for warning in file.warnings:
        logger.warning("%s: %s", path, warning)
    return file.spec


def read_cluster_file(path: Path) -> ClusterFile:
    """Return a cluster file with its warnings.

    Raises:
        ConfigError: it cannot be read, or describes no cluster that can train; has all reasons.
    """
    try:
        return load_cluster(path)
    except OSError as error:
        reason = f"{error.strerror}{near_path(path)}"
        raise ConfigError(f"cannot read the cluster file {path}: {reason}") from error
    except ConfigError as error:
        raise cluster_error(error, position=str(path)) from error


def cluster_error(error: ConfigError, *, position: str) -> ConfigError:
    """Return the error for a cluster in a file, with all its mistakes."""
    if len(error.problems) == 1:
        return ConfigError(f"{position}: {error}")
    listed = "".join(f"\n  - {problem}" for problem in error.problems)
    return ConfigError(f"{position} has {len(error.problems)} mistakes:{listed}")


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
