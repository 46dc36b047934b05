"""Finds out, before TensorFlow is imported, whether a replica can serve at its address."""

import errno
import socket

from trainer.cluster.roles import STRATEGIES
from trainer.cluster.tf_config import Cluster
from trainer.errors import ClusterError


def check_port(cluster: Cluster, *, strategy: str) -> None:
    """Raises ClusterError when something else listens on the port that TF_CONFIG gives this task.

    TensorFlow would say so only after it was imported, and in a way that names no replica.
    """
    addresses = cluster.addresses.get(cluster.task_type, ())
    if "worker" not in STRATEGIES[strategy] or not addresses:
        return
    address = addresses[cluster.task_index]
    port = int(address.rsplit(":", 1)[1])
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of an earlier process on this port may linger; only a listener is in the way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))  # as TensorFlow does: on every interface
        except OSError as error:
            reasons = {errno.EADDRINUSE: "another process listens on it"}
            reason = reasons.get(error.errno, error.strerror)
            raise ClusterError(
                f"{cluster.name} cannot serve at {address}: port {port}: {reason}; end what is "
                "there (an earlier job's replica?), or give this replica another port in TF_CONFIG"
            ) from error
