"""A group of replicas with GPUs, connected by TensorFlow's collectives, which use NCCL."""

import contextlib
import logging
import threading
import time
from collections.abc import Mapping

import tensorflow as tf
from tensorflow.python.eager import context

from trainer.cluster.liveness import (
    LivenessWatch,
    Monitor,
    Reminder,
    end_process,
    format_addresses,
    is_reachable,
)
from trainer.cluster.servers import REACTION_SECONDS, end_stuck_process, explain_port_errors
from trainer.cluster.tf_config import Cluster
from trainer.errors import EXIT_RESTART, ReplicaLostError
from trainer.runtime.tensorflow_logs import quiet_native_logs
from trainer.runtime.tracing import traced
from trainer.strategies.group import ReplicaGroup

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.5


class CollectiveGroup(ReplicaGroup):
    """The replicas of a job, connected by TensorFlow's collectives."""

    def __init__(self, cluster: Cluster, *, start_timeout_seconds: float, stop: threading.Event):
        trainers = cluster.trainers()
        self.rank, self.size = list(trainers).index(cluster.name), len(trainers)
        peers = {name: address for name, address in trainers.items() if name != cluster.name}
        watch = _StartWatch(peers, timeout_seconds=start_timeout_seconds, stop=stop)
        try:
            self._strategy = _connect(cluster, rank=self.rank)
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            lost = {name: at for name, at in peers.items() if not is_reachable(at)}
            reason = (
                f"{format_addresses(lost)} cannot be reached" if lost else "a replica has ended"
            )
            raise ReplicaLostError(f"while connecting: {reason}") from error
        finally:
            watch.close()
        self.monitor = Monitor(peers, on_stuck=end_stuck_process, reaction_seconds=REACTION_SECONDS)

    def all_reduce(self, vector: tf.Tensor) -> tf.Tensor:
        return self._strategy.run(_all_reduce, args=(vector,))

    def gather(self, rows: tf.IndexedSlices, *, most: int) -> tf.IndexedSlices:
        return _unpack(self._strategy.run(_gather, args=(_pack(rows, most),)))

    def leave(self) -> None:
        self.monitor.close()
        with contextlib.suppress(tf.errors.OpError):
            traced(self.all_reduce)(tf.zeros([1]))


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


class _StartWatch:
    """Watch for missing and lost replicas while the main thread connects.

    TensorFlow waits for all replicas without a timeout, so this ends the process instead.
    """

    def __init__(self, peers: Mapping[str, str], *, timeout_seconds: float, stop: threading.Event):
        self._peers, self._timeout_seconds, self._stop = peers, timeout_seconds, stop
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="replica-start", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        deadline = time.monotonic() + self._timeout_seconds
        missing, reminder = dict(self._peers), Reminder()
        while missing and not self._closed.wait(_POLL_SECONDS):
            missing = {name: at for name, at in missing.items() if not is_reachable(at)}
            reminder.log(missing)
            self._check(missing, deadline)
        watch = LivenessWatch(self._peers)
        while not self._closed.wait(_POLL_SECONDS):
            if lost := watch.find_lost():
                end_stuck_process(lost)
            self._check(self._peers, deadline)

    def _check(self, missing: Mapping[str, str], deadline: float) -> None:
        names = format_addresses(missing)
        if self._stop.is_set():
            logger.warning("stopped by SIGTERM while waiting for other replicas")
            end_process(EXIT_RESTART)
        if names and time.monotonic() > deadline:
            logger.error("waited %.0f s for %s: not started?", self._timeout_seconds, names)
            end_process(1)
