"""Check, before TensorFlow is imported, that a replica can listen on its port."""

import errno
import socket

from trainer.cluster.roles import STRATEGIES
from trainer.cluster.tf_config import Cluster
from trainer.errors import TrainerError


def check_port(cluster: Cluster, *, strategy: str) -> None:
    """Raise TrainerError if this replica cannot listen on its port in TF_CONFIG.

    TensorFlow would report it only after its import, without naming the replica.
    """
    addresses = cluster.addresses.get(cluster.task_type, ())
    if "worker" not in STRATEGIES[strategy] or not addresses:
        return
    address = addresses[cluster.task_index]
    port = int(address.rsplit(":", 1)[1])
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Lingering connections of an earlier process do not matter, only a listener does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))  # as TensorFlow does: on every interface
        except OSError as error:
            is_taken = error.errno == errno.EADDRINUSE
            reason = "another process listens on it" if is_taken else error.strerror
            raise TrainerError(
                f"{cluster.name} cannot serve at {address}: port {port}: {reason}; stop that"
                " process (a replica of an earlier job?), or give this replica another port in"
                " TF_CONFIG"
            ) from error
