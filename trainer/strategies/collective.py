"""A group of replicas with GPUs, connected by TensorFlow's collectives, which use NCCL."""

import logging
import threading
import time
from collections.abc import Mapping
from functools import partial

import tensorflow as tf
from tensorflow.python.eager import context

from trainer.cluster.liveness import (
    LivenessWatch,
    Monitor,
    Reminder,
    end_process,
    end_stuck_process,
    format_addresses,
    is_reachable,
)
from trainer.cluster.servers import REACTION_SECONDS, explain_port_errors
from trainer.cluster.tf_config import Cluster
from trainer.errors import EXIT_RESTART, ReplicaLostError
from trainer.runtime.tensorflow_logs import quiet_native_logs
from trainer.strategies.group import ReplicaGroup

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.5


class CollectiveGroup(ReplicaGroup):
    """The replicas of a job, connected by TensorFlow's collectives."""

    def __init__(self, cluster: Cluster, *, start_timeout_seconds: float, stop: threading.Event):
        super().__init__(cluster)
        is_connected, timeout = threading.Event(), start_timeout_seconds
        watch = partial(_watch_start, self._peers, timeout, stop=stop, is_connected=is_connected)
        threading.Thread(target=watch, name="replica-start", daemon=True).start()
        try:
            self._strategy = _connect(cluster, rank=self.rank)
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            lost = {name: at for name, at in self._peers.items() if not is_reachable(at)}
            reason = (
                f"{format_addresses(lost)} cannot be reached" if lost else "a replica has ended"
            )
            raise ReplicaLostError(f"while connecting: {reason}") from error
        finally:
            is_connected.set()
        self.monitor = Monitor(self._peers, reaction_seconds=REACTION_SECONDS)

    def all_reduce(self, vector: tf.Tensor) -> tf.Tensor:
        return self._strategy.run(_all_reduce, args=(vector,))

    def gather(self, rows: tf.IndexedSlices, *, most: int) -> tf.IndexedSlices:
        return _unpack(self._strategy.run(_gather, args=(_pack(rows, most),)))


def _connect(cluster: Cluster, *, rank: int) -> tf.distribute.MultiWorkerMirroredStrategy:
    # An empty service_type disables TensorFlow's coordination service. It connects in native code
    # that holds the GIL: no thread could log the missing replicas or handle SIGTERM.
    context.context().configure_coordination_service(service_type="")
    resolver = make_resolver(cluster, rank=rank)
    with quiet_native_logs(), explain_port_errors(cluster):
        return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)


def make_resolver(
    cluster: Cluster, *, rank: int
) -> tf.distribute.cluster_resolver.SimpleClusterResolver:
    """Return the addresses of one job, whatever the types of its replicas in TF_CONFIG.

    It has one device per replica, which adds up the contributions of its own GPUs before the
    all-reduce.
    """
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(cluster.trainers().values())}),
        task_type="worker",
        task_id=rank,
        rpc_layer="grpc",
        # Listing logical devices instead would initialise TensorFlow, too early for a cluster.
        num_accelerators={"GPU": min(1, len(tf.config.list_physical_devices("GPU")))},
    )


def _all_reduce(vector: tf.Tensor) -> tf.Tensor:
    replica = tf.distribute.get_replica_context()
    # The copy has a device, from which TensorFlow takes the device of the sum.
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(vector))


def _gather(rows: tf.Tensor) -> tf.Tensor:
    """Return the rows of all replicas, one replica's after the other's."""
    return tf.distribute.get_replica_context().all_gather(tf.identity(rows), axis=0)


def _pack(rows: tf.IndexedSlices, most: int) -> tf.Tensor:
    """Return [most, 1 + size]: the bits of each id + 1, and the values; the rest is zero.

    A collective must have the same shape in all steps.
    """
    ids = tf.bitcast(rows.indices + 1, tf.float32)[:, tf.newaxis]
    packed = tf.concat([ids, rows.values], 1)
    packed = tf.pad(packed, [[0, most - tf.shape(packed)[0]], [0, 0]])
    return tf.ensure_shape(packed, [most, packed.shape[1]])


def _unpack(packed: tf.Tensor) -> tf.IndexedSlices:
    ids = tf.bitcast(packed[:, 0], tf.int32) - 1
    is_row = ids >= 0
    return tf.IndexedSlices(tf.boolean_mask(packed[:, 1:], is_row), tf.boolean_mask(ids, is_row))


def _watch_start(
    peers: Mapping[str, str],
    timeout_seconds: float,
    *,
    stop: threading.Event,
    is_connected: threading.Event,
) -> None:
    """Watch for missing and lost replicas while the main thread connects.

    TensorFlow waits for all replicas without a timeout, so this ends the process instead.
    """
    deadline = time.monotonic() + timeout_seconds
    missing, reminder, watch = dict(peers), Reminder(), None
    while not is_connected.wait(_POLL_SECONDS):
        if missing:
            missing = {name: at for name, at in missing.items() if not is_reachable(at)}
            reminder.log(missing)
        else:
            watch = watch or LivenessWatch(peers)
            if lost := watch.find_lost():
                end_stuck_process(lost)
        if stop.is_set():
            logger.warning("stopped by SIGTERM while waiting for other replicas")
            end_process(EXIT_RESTART)
        if time.monotonic() > deadline:
            names = format_addresses(missing or peers)
            logger.error("waited %.0f s for %s: not started?", timeout_seconds, names)
            end_process(1)
