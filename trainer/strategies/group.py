"""A group of replicas that add up vectors, all with the same weights: multi_worker_mirrored."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import tensorflow as tf

from trainer.cluster.liveness import Monitor
from trainer.runtime.tracing import traced
from trainer.training.model.embeddings import Contribution, add_rows


class ReplicaGroup(ABC):
    """The replicas of a job, each with a rank from 0; the replica of rank 0 is the chief.

    All replicas call the same methods in the same order. A call raises an error of TensorFlow if a
    replica is lost; `monitor` says which.
    """

    rank: int
    size: int
    monitor: Monitor

    @abstractmethod
    def all_reduce(self, vector: tf.Tensor) -> tf.Tensor:
        """Return the sum of the vectors of all replicas, identical on all; to be traced."""

    @abstractmethod
    def gather(self, rows: tf.IndexedSlices, *, most: int) -> tf.IndexedSlices:
        """Return the rows of all replicas, in the order of their ranks; to be traced.

        `most` is the largest number of rows that a replica may give.
        """

    @abstractmethod
    def leave(self) -> None:
        """Wait for all other replicas after the last all-reduce, then leave the group.

        No replica may exit while another still receives.
        """

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
        bits = [_to_bits(snapshot[name]) for name in names]
        mine = tf.concat(bits, 0)
        shared = traced(self.all_reduce)(mine if self.rank == 0 else tf.zeros_like(mine))
        parts = tf.split(shared, [len(part) for part in bits])
        return {
            name: _from_bits(part, like=snapshot[name])
            for name, part in zip(names, parts, strict=True)
        }


def _to_bits(tensor: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tf.bitcast(tensor, tf.int32), [-1])


def _from_bits(bits: tf.Tensor, *, like: tf.Tensor) -> tf.Tensor:
    words = like.dtype.size // tf.int32.size
    shape = [*like.shape, words] if words > 1 else like.shape
    return tf.bitcast(tf.reshape(bits, shape), like.dtype)
