"""multi_worker_mirrored: sums of vectors over all replicas, which all hold the same weights."""

import contextlib
import logging
import threading
import time
from collections.abc import Mapping

import tensorflow as tf
from tensorflow.python.eager import context

from trainer.cluster.liveness import (
    Monitor,
    Reminder,
    Watch,
    end_process,
    is_reachable,
    list_names,
)
from trainer.cluster.servers import abandon, naming_the_port
from trainer.cluster.tf_config import Cluster
from trainer.errors import EXIT_RESTART, ReplicaLostError
from trainer.runtime.tensorflow_logs import quiet_native_logs
from trainer.runtime.tracing import traced

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
# TensorFlow notices a closed connection by itself; this is for when it does not.
_REACTION_SECONDS = 5.0


class Ring:
    """The replicas of a multi_worker_mirrored job, connected by TensorFlow's collectives."""

    def __init__(self, cluster: Cluster, *, start_timeout_seconds: float, stop: threading.Event):
        trainers = cluster.trainers()
        self.rank, self.size = list(trainers).index(cluster.name), len(trainers)
        peers = {name: address for name, address in trainers.items() if name != cluster.name}
        start = _Start(peers, timeout_seconds=start_timeout_seconds, stop=stop)
        try:
            self._strategy = _connect(cluster, rank=self.rank)
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            raise ReplicaLostError(f"while connecting: {_missing(peers)}") from error
        finally:
            start.close()
        self.monitor = Monitor(peers, on_stuck=abandon, reaction_seconds=_REACTION_SECONDS)

    def add_up(self, vector: tf.Tensor) -> tf.Tensor:
        """Returns the sum of every replica's vector, to the bit the same on all; in a graph."""
        return self._strategy.run(_all_reduce, args=(vector,))

    def part(self) -> None:
        """Is called by all after their last sum: what one has not yet sent would end with it.

        Who is through here knows that all others have come here, and so have had that last sum.
        """
        self.monitor.close()
        with contextlib.suppress(tf.errors.OpError):
            traced(self.add_up)(tf.zeros([1]))

    def share(self, snapshot: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the snapshot of the replica with rank 0 on all."""
        names = sorted(snapshot)
        # As integers, whose sum with zeros is exact for any bits.
        bits = [_to_bits(snapshot[name]) for name in names]
        mine = tf.concat(bits, 0)
        shared = traced(self.add_up)(mine if self.rank == 0 else tf.zeros_like(mine))
        parts = tf.split(shared, [len(part) for part in bits])
        return {
            name: _from_bits(part, like=snapshot[name])
            for name, part in zip(names, parts, strict=True)
        }


def _connect(cluster: Cluster, *, rank: int) -> tf.distribute.MultiWorkerMirroredStrategy:
    # An empty service_type is none. TensorFlow's coordination service connects in native code that
    # holds Python's lock: nobody could tell who is missing, nor obey a SIGTERM.
    context.context().configure_coordination_service(service_type="")
    with quiet_native_logs(), naming_the_port(cluster):
        return tf.distribute.MultiWorkerMirroredStrategy(
            cluster_resolver=_resolver(cluster, rank=rank)
        )


def _resolver(
    cluster: Cluster, *, rank: int
) -> tf.distribute.cluster_resolver.SimpleClusterResolver:
    # One job, whatever TF_CONFIG calls its replicas, and one device: a replica adds up what its
    # own GPUs have computed before it meets the others.
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(cluster.trainers().values())}),
        task_type="worker",
        task_id=rank,
        rpc_layer="grpc",
        # Not the logical ones: to ask for those starts TensorFlow, too early for a cluster.
        num_accelerators={"GPU": min(1, len(tf.config.list_physical_devices("GPU")))},
    )


def _missing(peers: Mapping[str, str]) -> str:
    gone = [f"{name} ({at})" for name, at in peers.items() if not is_reachable(at)]
    return f"{', '.join(gone)} cannot be reached" if gone else "a replica has ended"


def _all_reduce(vector: tf.Tensor) -> tf.Tensor:
    replica = tf.distribute.get_replica_context()
    # The copy has a device, which is what tells TensorFlow where the sum belongs.
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(vector))


def _to_bits(tensor: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tf.bitcast(tensor, tf.int32), [-1])


def _from_bits(bits: tf.Tensor, *, like: tf.Tensor) -> tf.Tensor:
    words = like.dtype.size // tf.int32.size
    shape = [*like.shape, words] if words > 1 else like.shape
    return tf.bitcast(tf.reshape(bits, shape), like.dtype)


class _Start:
    """Watches the others while the main thread is in TensorFlow, which waits for them for ever."""

    def __init__(self, peers: Mapping[str, str], *, timeout_seconds: float, stop: threading.Event):
        self._peers, self._timeout_seconds, self._stop = peers, timeout_seconds, stop
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="replica-start", daemon=True).start()

    def close(self) -> None:
        """Is told that all are connected, or that connecting has failed."""
        self._closed.set()

    def _run(self) -> None:
        deadline = time.monotonic() + self._timeout_seconds
        missing, reminder = dict(self._peers), Reminder()
        while missing and not self._closed.wait(_POLL_SECONDS):
            missing = {name: at for name, at in missing.items() if not is_reachable(at)}
            reminder.say(missing)
            self._check(missing, deadline)
        watch = Watch(self._peers)
        while not self._closed.wait(_POLL_SECONDS):
            if loss := watch.lost():
                abandon(loss)
            self._check(self._peers, deadline)

    def _check(self, missing: Mapping[str, str], deadline: float) -> None:
        names = list_names(missing)
        if self._stop.is_set():
            logger.warning("stopped by SIGTERM while waiting for other replicas")
            end_process(EXIT_RESTART)
        if names and time.monotonic() > deadline:
            logger.error("waited %.0f s for %s: not started?", self._timeout_seconds, names)
            end_process(1)
