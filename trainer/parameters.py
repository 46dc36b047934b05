"""The trained state, held as few large variables: what every step pulls and pushes.

Every variable that a step reads from or updates on a parameter server is an RPC of its own, and
that is what makes small models slow there. So all of a model's weights are one flat vector (cut
into one piece for each server), read in one message, updated by one fused operation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-7


class Layout:
    """Where each trainable weight of a Keras model lies in the flat vector."""

    def __init__(self, model: Any):
        if model.non_trainable_variables:
            names = ", ".join(variable.path for variable in model.non_trainable_variables)
            raise NotImplementedError(f"weights that are not trained by gradients: {names}")
        self._shapes = [tuple(variable.shape) for variable in model.trainable_variables]
        self._sizes = [math.prod(shape) for shape in self._shapes]
        self.size = sum(self._sizes)

    def split(self, flat: tf.Tensor) -> list[tf.Tensor]:
        """Returns the weights in the model's order and shapes."""
        parts = tf.split(flat, self._sizes)
        return [tf.reshape(part, shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def read(self, model: Any) -> tf.Tensor:
        """Returns the model's weights as one vector."""
        return tf.concat([tf.reshape(v.value, [-1]) for v in model.trainable_variables], 0)

    def write(self, flat: tf.Tensor, model: Any) -> None:
        """Sets the model's weights from one vector."""
        for variable, weights in zip(model.trainable_variables, self.split(flat), strict=True):
            variable.assign(weights)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """One cycle: the learning rate rises to its peak, then falls to zero as a cosine."""

    peak: float
    total_steps: int
    warmup: float = 0.15

    def rate(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the learning rate of a step, counted from 1."""
        done = tf.minimum(tf.cast(step, tf.float32) / self.total_steps, 1.0)
        falling = 0.5 * (1 + tf.cos(math.pi * (done - self.warmup) / (1 - self.warmup)))
        return self.peak * tf.where(done < self.warmup, done / self.warmup, falling)


@dataclass(frozen=True)
class _Piece:
    """A part of the flat vector on one device, with Adam's two moving averages of its gradient."""

    device: str
    weights: tf.Variable
    momentum: tf.Variable
    velocity: tf.Variable


class Parameters:
    """Weights, optimizer state and step count, spread over the given devices.

    `pull` and `push` may be called by many workers at once. Adam is TensorFlow's fused kernel: it
    runs where the piece is, under its lock, so no update is lost. Keras optimizers read, then
    write, and do lose some when asynchronous; they also move each slot through the worker.
    """

    def __init__(self, initial: tf.Tensor, *, devices: Sequence[str]):
        self._sizes = _even_sizes(initial.shape[0], len(devices))
        parts = tf.split(initial, self._sizes)
        self._pieces = [_make_piece(*pair) for pair in zip(parts, devices, strict=True)]
        with tf.device(devices[0]):
            self.global_step = tf.Variable(0, dtype=tf.int64, name="global_step")

    def pull(self) -> tf.Tensor:
        """Returns the current weights as one vector."""
        return _join([piece.weights for piece in self._pieces])

    def push(self, gradient: tf.Tensor, schedule: Schedule) -> None:
        """Counts one step and applies its gradient."""
        with tf.device(self._pieces[0].device):
            step = self.global_step.assign_add(1, read_value=True)
            learning_rate = schedule.rate(step)
        for piece, part in zip(self._pieces, tf.split(gradient, self._sizes), strict=True):
            with tf.device(piece.device):
                _apply_adam(piece, part, step=step, learning_rate=learning_rate)

    def snapshot(self) -> dict[str, tf.Tensor]:
        """Returns everything as local tensors: global_step, weights, momentum, velocity."""
        return {
            "global_step": tf.identity(self.global_step.read_value()),
            "weights": self.pull(),
            "momentum": _join([piece.momentum for piece in self._pieces]),
            "velocity": _join([piece.velocity for piece in self._pieces]),
        }

    def load(self, state: dict[str, tf.Tensor]) -> None:
        """Sets everything from what `snapshot` returned, here or on another cluster."""
        self.global_step.assign(state["global_step"])
        for name in ("weights", "momentum", "velocity"):
            parts = tf.split(state[name], self._sizes)
            for piece, part in zip(self._pieces, parts, strict=True):
                getattr(piece, name).assign(part)


def _even_sizes(size: int, num_parts: int) -> list[int]:
    return [size // num_parts + (index < size % num_parts) for index in range(num_parts)]


def _make_piece(initial: tf.Tensor, device: str) -> _Piece:
    with tf.device(device):
        zeros = tf.zeros_like(initial)
        return _Piece(device, tf.Variable(initial), tf.Variable(zeros), tf.Variable(zeros))


def _join(variables: Sequence[tf.Variable]) -> tf.Tensor:
    values = [variable.read_value() for variable in variables]
    return tf.concat(values, 0) if len(values) > 1 else tf.identity(values[0])


def _apply_adam(
    piece: _Piece, gradient: tf.Tensor, *, step: tf.Tensor, learning_rate: tf.Tensor
) -> None:
    exponent = tf.cast(step, tf.float32)
    tf.raw_ops.ResourceApplyAdam(
        var=piece.weights.handle,
        m=piece.momentum.handle,
        v=piece.velocity.handle,
        beta1_power=tf.pow(_BETA_1, exponent),
        beta2_power=tf.pow(_BETA_2, exponent),
        lr=learning_rate,
        beta1=_BETA_1,
        beta2=_BETA_2,
        epsilon=_EPSILON,
        grad=gradient,
        use_locking=True,
    )
