"""The trained state, held as few large variables: what every step pulls and pushes.

Every variable that a step reads from or updates on a parameter server is an RPC of its own, and
that is what makes small models slow there. So all of a model's weights are one flat vector (cut
into one piece for each server), read in one message, updated by one fused operation. What a model
holds beside its weights, such as the statistics of batch normalisation, is a second vector.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainer.optimizers import Adam, Optimizer


class Layout:
    """Where each variable of a Keras model lies in the flat vectors of weights and of state.

    Integer variables are the counters of Keras' random numbers (dropout). They are no part of the
    state: each step sets them anew from its number, see `trainer.step.apply_model`.
    """

    def __init__(self, model: Any):
        self._weights = _Shapes(model.trainable_variables)
        self._state = _Shapes(filter(_is_float, model.non_trainable_variables))
        self.size, self.state_size = self._weights.size, self._state.size

    def split(self, flat: tf.Tensor) -> list[tf.Tensor]:
        """Returns the weights in the model's order and shapes."""
        return self._weights.split(flat)

    def name(self, flat: tf.Tensor, model: Any) -> dict[str, tf.Tensor]:
        """Returns the weights by the names that the model has for them."""
        names = [variable.path for variable in model.trainable_variables]
        return dict(zip(names, self.split(flat), strict=True))

    def split_state(self, flat: tf.Tensor, model: Any, *, seed: tf.Tensor) -> list[tf.Tensor]:
        """Returns the values of all non-trainable variables, counters set from `seed`."""
        values = iter(self._state.split(flat))
        return [
            next(values) if _is_float(variable) else _counter(variable, seed, index)
            for index, variable in enumerate(model.non_trainable_variables)
        ]

    def join_state(self, values: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the values of the non-trainable variables as one vector."""
        return _concat([value for value in values if _is_float(value)])

    def read(self, model: Any) -> tf.Tensor:
        """Returns the model's weights as one vector."""
        return _concat([variable.value for variable in model.trainable_variables])

    def read_state(self, model: Any) -> tf.Tensor:
        """Returns what the model holds beside its weights as one vector."""
        return self.join_state([variable.value for variable in model.non_trainable_variables])

    def write(self, flat: tf.Tensor, model: Any, *, state: tf.Tensor | None = None) -> None:
        """Sets the model's weights, and its state if it is given."""
        for variable, values in zip(model.trainable_variables, self.split(flat), strict=True):
            variable.assign(values)
        if state is not None:
            targets = filter(_is_float, model.non_trainable_variables)
            for variable, values in zip(targets, self._state.split(state), strict=True):
                variable.assign(values)

    def decay_mask(self) -> tf.Tensor:
        """Returns 1 for each weight that decays, 0 for those of biases and normalisations."""
        return _concat([tf.fill(shape, float(len(shape) > 1)) for shape in self._weights.shapes])


class _Shapes:
    """Cuts a vector into tensors of given shapes."""

    def __init__(self, variables: Any):
        self.shapes = [tuple(variable.shape) for variable in variables]
        self._sizes = [math.prod(shape) for shape in self.shapes]
        self.size = sum(self._sizes)

    def split(self, flat: tf.Tensor) -> list[tf.Tensor]:
        if not self.shapes:
            return []
        parts = tf.split(flat, self._sizes)
        return [tf.reshape(part, shape) for part, shape in zip(parts, self.shapes, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The learning rate: it rises to its peak for the share `warmup` of all steps, then `kind`.

    `one_cycle` and `cosine` fall to zero as a cosine, `linear` falls in a line, `constant` stays.
    """

    peak: float
    total_steps: int
    warmup: float = 0.15
    kind: str = "one_cycle"

    def rate(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the learning rate of a step, counted from 1."""
        done = tf.minimum(tf.cast(step, tf.float32) / self.total_steps, 1.0)
        after = self._after_peak(done)
        if not self.warmup:
            return self.peak * after
        return self.peak * tf.where(done < self.warmup, done / self.warmup, after)

    def _after_peak(self, done: tf.Tensor) -> tf.Tensor:
        if self.kind == "constant":
            return tf.ones_like(done)
        if self.kind == "linear":
            return 1 - (done - self.warmup) / (1 - self.warmup)
        return 0.5 * (1 + tf.cos(math.pi * (done - self.warmup) / (1 - self.warmup)))


@dataclass(frozen=True)
class _Piece:
    """A part of the flat vector on one device, with the vectors that go with it."""

    device: str
    weights: tf.Variable
    extras: Mapping[str, tf.Variable]
    decay_mask: tf.Tensor | None


class Parameters:
    """Weights, optimizer slots, state and step count, spread over the given devices.

    `pull` and `push` may be called by many workers at once: no update is lost.
    """

    def __init__(
        self,
        initial: tf.Tensor,
        *,
        devices: Sequence[str],
        state: tf.Tensor | None = None,
        optimizer: Optimizer | None = None,
        weight_decay: float = 0.0,
        decay_mask: tf.Tensor | None = None,
        average_decay: float = 0.0,
        num_slots: int = 0,
    ):
        self._optimizer = optimizer or Adam()
        self._weight_decay, self._average_decay = weight_decay, average_decay
        self._sizes = _even_sizes(initial.shape[0], len(devices))
        parts = tf.split(initial, self._sizes)
        masks = self._split_mask(decay_mask)
        self._pieces = [
            self._make_piece(*piece) for piece in zip(parts, devices, masks, strict=True)
        ]
        with tf.device(devices[0]):
            # The global step, then the steps done in each slot: one variable, so that both are
            # counted by one operation, which is whole or is not at all.
            self._counts = tf.Variable(tf.zeros([1 + num_slots], tf.int64), name="global_step")
            self._state = tf.Variable(tf.zeros([0]) if state is None else state)
            # Averaged weights need the statistics of their own time, not those of the last step.
            self._average_state = tf.Variable(self._state) if average_decay else self._state

    def pull(self) -> tf.Tensor:
        """Returns the current weights as one vector."""
        return _join([piece.weights for piece in self._pieces])

    def pull_state(self) -> tf.Tensor:
        """Returns what the model holds beside its weights as one vector."""
        return self._state.read_value() if self._state.shape[0] else tf.zeros([0])

    def num_steps(self) -> int:
        """Returns the global step: the number of steps done until now."""
        return int(self._counts.read_value()[0])

    def steps_done(self, slot: tf.Tensor) -> tf.Tensor:
        """Returns how many steps were counted in a slot since it was freed."""
        with tf.device(self._pieces[0].device):
            return self._counts.read_value()[1 + slot]

    def free_slot(self, slot: int) -> None:
        """Sets the count of a slot to zero, while others go on counting in theirs."""
        done = int(self._counts.read_value()[1 + slot])
        self._counts.assign_add(-done * self._marks(slot), read_value=False)

    def push(
        self,
        gradient: tf.Tensor,
        schedule: Schedule,
        *,
        state_change: tf.Tensor | None = None,
        slot: tf.Tensor | None = None,
    ) -> None:
        """Counts one step, applies its gradient and adds its change to the state.

        Changes are added, not written over, so that those of several workers all count.
        """
        first, *others = tf.split(gradient, self._sizes)
        with tf.device(self._pieces[0].device):
            first = tf.identity(first)
            # Counted when the gradient is there: a worker that dies before has not pushed it.
            with tf.control_dependencies([first]):
                marks = self._marks() if slot is None else self._marks() + self._marks(slot)
                step = self._counts.assign_add(marks, read_value=True)[0]
            learning_rate = schedule.rate(step)
            if state_change is not None and self._state.shape[0]:
                self._state.assign_add(state_change)
                if self._average_decay:
                    self._follow(self._average_state, self._state, step=step)
        for piece, part in zip(self._pieces, [first, *others], strict=True):
            with tf.device(piece.device):
                self._update(piece, part, step=step, learning_rate=learning_rate)

    def _marks(self, slot: tf.Tensor | int = -1) -> tf.Tensor:
        """Returns a one at the place of the slot, or of the global step, among zeros."""
        return tf.one_hot(1 + slot, self._counts.shape[0], dtype=tf.int64)

    def snapshot(self) -> dict[str, tf.Tensor]:
        """Returns everything as local tensors: global_step, weights, state, and slots by name.

        Beside them, `steps_done` in each slot, counted up to that same global step.
        """
        counts = tf.identity(self._counts.read_value())
        return {
            "global_step": counts[0],
            "steps_done": counts[1:],
            "weights": self.pull(),
            "state": tf.identity(self.pull_state()),
            **({"average_state": tf.identity(self._average_state)} if self._average_decay else {}),
            **{
                name: _join([piece.extras[name] for piece in self._pieces])
                for name in self.slot_names
            },
        }

    def load(self, snapshot: Mapping[str, tf.Tensor]) -> None:
        """Sets everything from what `snapshot` returned, here or on another cluster."""
        zeros = tf.zeros([self._counts.shape[0] - 1], tf.int64)
        self._counts.assign(tf.concat([snapshot["global_step"][tf.newaxis], zeros], 0))
        self._state.assign(snapshot["state"])
        self._average_state.assign(snapshot.get("average_state", snapshot["state"]))
        for name in ("weights", *self.slot_names):
            parts = tf.split(snapshot[name], self._sizes)
            for piece, part in zip(self._pieces, parts, strict=True):
                variable = piece.weights if name == "weights" else piece.extras[name]
                variable.assign(part)

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The vectors of the weights' size that are held beside them."""
        return (*self._optimizer.slot_names, *(["average"] if self._average_decay else []))

    def _split_mask(self, mask: tf.Tensor | None) -> Sequence[tf.Tensor | None]:
        if not self._weight_decay or mask is None:
            return [None] * len(self._sizes)
        return tf.split(mask, self._sizes)

    def _make_piece(self, initial: tf.Tensor, device: str, mask: tf.Tensor | None) -> _Piece:
        with tf.device(device):
            zeros = tf.zeros_like(initial)
            extras = {
                name: tf.Variable(initial if name == "average" else zeros)
                for name in self.slot_names
            }
            mask = None if mask is None else tf.Variable(mask, trainable=False)
            return _Piece(device, tf.Variable(initial), extras, mask)

    def _update(
        self, piece: _Piece, gradient: tf.Tensor, *, step: tf.Tensor, learning_rate: tf.Tensor
    ) -> None:
        if piece.decay_mask is not None:
            rate = learning_rate * self._weight_decay
            piece.weights.assign_sub(rate * piece.decay_mask * piece.weights)
        self._optimizer.apply(
            piece.weights, piece.extras, gradient, step=step, learning_rate=learning_rate
        )
        if self._average_decay:
            self._follow(piece.extras["average"], piece.weights, step=step)

    def _follow(self, average: tf.Variable, values: tf.Variable, *, step: tf.Tensor) -> None:
        # While there are few steps, the first values must not weigh on the average.
        done = tf.cast(step, tf.float32)
        decay = tf.minimum(self._average_decay, (1 + done) / (10 + done))
        average.assign_add((1 - decay) * (values - average))


def _even_sizes(size: int, num_parts: int) -> list[int]:
    return [size // num_parts + (index < size % num_parts) for index in range(num_parts)]


def _join(variables: Sequence[tf.Variable]) -> tf.Tensor:
    values = [variable.read_value() for variable in variables]
    return tf.concat(values, 0) if len(values) > 1 else tf.identity(values[0])


def _concat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    flat = [tf.reshape(tensor, [-1]) for tensor in tensors]
    return tf.concat(flat, 0) if flat else tf.zeros([0])


def _is_float(variable: Any) -> bool:
    return tf.as_dtype(variable.dtype).is_floating


def _counter(variable: Any, seed: tf.Tensor, index: int) -> tf.Tensor:
    value = tf.stack([seed[0] + index, seed[1]])
    return tf.cast(tf.reshape(value, variable.shape), tf.as_dtype(variable.dtype))
