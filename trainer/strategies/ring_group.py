"""A group of replicas on CPUs, connected in a ring."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.cluster.liveness import Monitor, Watch, wait_until_reachable
from trainer.cluster.servers import end_stuck_process
from trainer.cluster.tf_config import Cluster
from trainer.errors import Preempted, ReplicaLostError, TrainerError
from trainer.strategies.group import ReplicaGroup
from trainer.strategies.ring import Ring


class RingGroup(ReplicaGroup):
    """The replicas of a job, connected in a ring."""

    def __init__(self, cluster: Cluster, *, start_timeout_seconds: float, stop: threading.Event):
        """Connect to the other replicas.

        Raises:
            TrainerError: a replica has not started after `start_timeout_seconds`.
            ReplicaLostError: one has ended meanwhile.
            Preempted: SIGTERM was received.
        """
        trainers = cluster.trainers()
        peers = {name: address for name, address in trainers.items() if name != cluster.name}
        deadline = time.monotonic() + start_timeout_seconds
        self._ring = Ring(trainers, cluster.name)
        self.rank, self.size = self._ring.rank, self._ring.size

        def check_stop() -> None:
            if stop.is_set():
                raise Preempted("stopped by SIGTERM while waiting for other replicas")

        try:
            wait_until_reachable(peers, timeout_seconds=start_timeout_seconds, check=check_stop)
        except ReplicaLostError as error:
            raise TrainerError(str(error)) from error
        watch = Watch(peers)

        def check() -> None:
            check_stop()
            if lost := watch.find_lost():
                raise ReplicaLostError(f"while connecting: {lost}")
            if time.monotonic() > deadline:
                raise TrainerError(
                    f"waited {start_timeout_seconds:.0f} s for the replicas of an earlier start"
                )

        self._ring.connect(check)
        self.monitor = Monitor(peers, on_stuck=end_stuck_process)

    def all_reduce(self, vector: tf.Tensor) -> tf.Tensor:
        """Return the sum of the vectors of all replicas, identical on all; to be traced."""
        total = tf.numpy_function(self._noting(self._ring.add), [vector], vector.dtype)
        return tf.ensure_shape(total, vector.shape)

    def gather(self, rows: tf.IndexedSlices, *, most: int) -> tf.IndexedSlices:
        """Return the rows of all replicas, in the order of their ranks; to be traced."""
        gather = self._noting(self._ring.gather)
        ids = tf.numpy_function(gather, [rows.indices], rows.indices.dtype)
        with tf.control_dependencies([ids]):
            values = tf.numpy_function(gather, [rows.values], rows.values.dtype)
        return tf.IndexedSlices(
            tf.ensure_shape(values, [None, *rows.values.shape[1:]]), tf.ensure_shape(ids, [None])
        )

    def leave(self) -> None:
        """Wait for all other replicas after the last all-reduce, then leave the group."""
        self.monitor.close()
        with contextlib.suppress(tf.errors.OpError):
            self.all_reduce(tf.zeros([1]))

    def _noting(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the function; the monitor notes which neighbour has ended."""

        def call(values: Any) -> Any:
            try:
                return function(values)
            except ConnectionError as error:
                self.monitor.disconnected = str(error)
                raise

        return call
