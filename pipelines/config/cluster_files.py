"""Cluster files (configs/clusters), read with their warnings and mistakes."""

import logging
from pathlib import Path

from components.plan_training.cluster_file import ClusterFile, load_cluster
from components.plan_training.cluster_spec import ClusterSpec
from trainer.errors import ClusterError, ConfigError

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
        raise ConfigError(f"cannot read the cluster file {path}: {error.strerror}") from error
    except ClusterError as error:
        raise cluster_error(error, position=str(path)) from error


def cluster_error(error: ClusterError, *, position: str) -> ConfigError:
    """Return the error for a cluster in a file, with all its mistakes."""
    if len(error.problems) == 1:
        return ConfigError(f"{position}: {error}")
    listed = "".join(f"\n  - {problem}" for problem in error.problems)
    return ConfigError(f"{position} has {len(error.problems)} mistakes:{listed}")
