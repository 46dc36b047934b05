"""A group of replicas that add up vectors, all with the same weights: multi_worker_mirrored.

On CPUs they are connected in a ring.
"""

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer.cluster.liveness import LivenessWatch, Monitor, wait_until_reachable
from trainer.cluster.tf_config import Cluster
from trainer.errors import Preempted, ReplicaLostError, TrainerError
from trainer.runtime.tracing import traced
from trainer.strategies.ring import Ring
from trainer.training.model.embeddings import Contribution, add_rows


class ReplicaGroup(ABC):
    """The replicas of a job, each with a rank from 0; the replica of rank 0 is the chief.

    All replicas call the same methods in the same order. A call raises an error of TensorFlow if a
    replica is lost; `monitor` says which.
    """

    monitor: Monitor

    def __init__(self, cluster: Cluster):
        trainers = cluster.trainers()
        self.rank, self.size = list(trainers).index(cluster.name), len(trainers)
        self._peers = {name: at for name, at in trainers.items() if name != cluster.name}

    @abstractmethod
    def all_reduce(self, vector: tf.Tensor) -> tf.Tensor:
        """Return the sum of the vectors of all replicas, identical on all; to be traced."""

    @abstractmethod
    def gather(self, rows: tf.IndexedSlices, *, most: int) -> tf.IndexedSlices:
        """Return the rows of all replicas, in the order of their ranks; to be traced.

        `most` is the largest number of rows that a replica may give.
        """

    def leave(self) -> None:
        """Wait for all other replicas after the last all-reduce, then leave the group.

        No replica may exit while another still receives.
        """
        self.monitor.close()
        with contextlib.suppress(tf.errors.OpError):
            traced(self.all_reduce)(tf.zeros([1]))

    def add(self, contribution: Contribution, *, most_rows: Sequence[int]) -> Contribution:
        """Return the sum of the contributions of all replicas, identical on all; to be traced.

        `most_rows` are the most rows of each embedding that a replica contributes.
        """
        sizes = [contribution.gradient.shape[0], contribution.state_and_sums.shape[0]]
        vector = self.all_reduce(tf.concat([contribution.gradient, contribution.state_and_sums], 0))
        rows: list[tf.IndexedSlices] = []
        for embedding_rows, most in zip(contribution.rows, most_rows, strict=True):
            # In the same order on all replicas.
            with tf.control_dependencies([vector, *(done.values for done in rows)]):
                rows.append(add_rows([self.gather(embedding_rows, most=most)]))
        gradient, state_and_sums = tf.split(vector, sizes)
        return Contribution(gradient, state_and_sums, tuple(rows))

    def broadcast(self, snapshot: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the snapshot of the replica of rank 0, on all replicas."""
        names = sorted(snapshot)
        # As integers: adding zeros to them preserves every bit.
        bits = [tf.reshape(tf.bitcast(snapshot[name], tf.int32), [-1]) for name in names]
        mine = tf.concat(bits, 0)
        shared = traced(self.all_reduce)(mine if self.rank == 0 else tf.zeros_like(mine))
        parts = tf.split(shared, [len(part) for part in bits])
        return {
            name: _from_bits(part, like=snapshot[name])
            for name, part in zip(names, parts, strict=True)
        }


def _from_bits(bits: tf.Tensor, *, like: tf.Tensor) -> tf.Tensor:
    words = like.dtype.size // tf.int32.size
    shape = [*like.shape, words] if words > 1 else like.shape
    return tf.bitcast(tf.reshape(bits, shape), like.dtype)


class RingGroup(ReplicaGroup):
    """The replicas of a job, connected in a ring."""

    def __init__(self, cluster: Cluster, *, start_timeout_seconds: float, stop: threading.Event):
        """Connect to the other replicas; TrainerError if one does not start in time."""
        super().__init__(cluster)
        deadline = time.monotonic() + start_timeout_seconds
        self._ring = Ring(cluster.trainers(), cluster.name)

        def check_stop() -> None:
            if stop.is_set():
                raise Preempted("stopped by SIGTERM while waiting for other replicas")

        try:
            wait_until_reachable(
                self._peers, timeout_seconds=start_timeout_seconds, check=check_stop
            )
        except ReplicaLostError as error:
            raise TrainerError(str(error)) from error
        watch = LivenessWatch(self._peers)

        def check() -> None:
            check_stop()
            if lost := watch.find_lost():
                raise ReplicaLostError(f"while connecting: {lost}")
            if time.monotonic() > deadline:
                raise TrainerError(
                    f"waited {start_timeout_seconds:.0f} s for the replicas of an earlier start"
                )

        self._ring.connect(check)
        self.monitor = Monitor(self._peers)

    def all_reduce(self, vector: tf.Tensor) -> tf.Tensor:
        total = tf.numpy_function(self._noting(self._ring.add), [vector], vector.dtype)
        return tf.ensure_shape(total, vector.shape)

    def gather(self, rows: tf.IndexedSlices, *, most: int) -> tf.IndexedSlices:
        gather = self._noting(self._ring.gather)
        ids = tf.numpy_function(gather, [rows.indices], rows.indices.dtype)
        with tf.control_dependencies([ids]):
            values = tf.numpy_function(gather, [rows.values], rows.values.dtype)
        return tf.IndexedSlices(
            tf.ensure_shape(values, [None, *rows.values.shape[1:]]), tf.ensure_shape(ids, [None])
        )

    def _noting(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(values: Any) -> Any:
            try:
                return function(values)
            except ConnectionError as error:
                self.monitor.disconnected = str(error)
                raise

        return call
