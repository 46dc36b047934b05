"""The trained state, held as few large variables: what every step pulls and pushes.

Every variable that a step reads from or updates on a parameter server is an RPC of its own, and
that is what makes small models slow there. So all of a model's weights are one flat vector (cut
into one piece for each server), read in one message, updated by one fused operation. What a model
holds beside its weights, such as the statistics of batch normalisation, is a second vector.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer.training.optimizers import Adam, Optimizer
from trainer.training.pieces import Cut, LinearPart, Piece
from trainer.training.schedule import Schedule


class Layout:
    """Where each variable of a Keras model lies in the flat vectors of weights and of state.

    Integer variables are the counters of Keras' random numbers (dropout). They are no part of the
    state: each step sets them anew from its number, see `trainer.training.step.apply_model`.
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

    def segments(self, model: Any, chosen: Sequence[Any]) -> tuple[tuple[int, bool], ...]:
        """Returns (number of weights, whether they are those of `chosen` variables), in order."""
        paths = {variable.path for variable in chosen}
        return tuple(
            (math.prod(variable.shape), variable.path in paths)
            for variable in model.trainable_variables
        )

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
        linear: LinearPart | None = None,
    ):
        self._optimizer, self._linear = optimizer or Adam(), linear
        self._weight_decay, self._average_decay = weight_decay, average_decay
        self._cut = Cut(initial.shape[0], num_devices=len(devices), linear=linear)
        groups = self._cut.groups
        self._pieces = [
            self._make_piece(part, device, mask, is_linear=is_linear)
            for part, device, mask, is_linear in zip(
                self._cut.split(initial),
                itertools.islice(itertools.cycle(devices), len(groups)),
                self._split_mask(decay_mask, len(groups)),
                groups,
                strict=True,
            )
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
        return self._cut.join([piece.weights.read_value() for piece in self._pieces])

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
        first, *others = self._cut.split(gradient)
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
            **{name: self._join(name) for name in self.vector_names if name != "weights"},
        }

    def load(self, snapshot: Mapping[str, tf.Tensor]) -> None:
        """Sets everything from what `snapshot` returned, here or on another cluster."""
        zeros = tf.zeros([self._counts.shape[0] - 1], tf.int64)
        self._counts.assign(tf.concat([snapshot["global_step"][tf.newaxis], zeros], 0))
        self._state.assign(snapshot["state"])
        self._average_state.assign(snapshot.get("average_state", snapshot["state"]))
        for name in self.vector_names:
            pieces = self._with(name)
            whole = len(pieces) == len(self._pieces)
            parts = (
                self._cut.split(snapshot[name])
                if whole
                else self._cut.split_group(snapshot[name], is_linear=pieces[0].is_linear)
            )
            for piece, part in zip(pieces, parts, strict=True):
                piece.vectors[name].assign(part)

    @property
    def vector_names(self) -> list[str]:
        """The weights, and the vectors that are held beside them or some of them."""
        return list(dict.fromkeys(name for piece in self._pieces for name in piece.vectors))

    def _with(self, name: str) -> list[Piece]:
        return [piece for piece in self._pieces if name in piece.vectors]

    def _join(self, name: str) -> tf.Tensor:
        pieces = self._with(name)
        parts = [piece.vectors[name].read_value() for piece in pieces]
        return self._cut.join(parts) if len(pieces) == len(self._pieces) else tf.concat(parts, 0)

    def _split_mask(self, mask: tf.Tensor | None, num_pieces: int) -> Sequence[tf.Tensor | None]:
        if not self._weight_decay or mask is None:
            return [None] * num_pieces
        return self._cut.split(mask)

    def _make_piece(
        self, initial: tf.Tensor, device: str, mask: tf.Tensor | None, *, is_linear: bool
    ) -> Piece:
        linear = self._linear if is_linear else None
        optimizer = linear.optimizer if linear else self._optimizer
        with tf.device(device):
            slots = {
                name: tf.Variable(tf.fill(initial.shape, optimizer.first_values.get(name, 0.0)))
                for name in optimizer.slot_names
            }
            average = tf.Variable(initial) if self._average_decay else None
            has_mask = mask is not None and optimizer.takes_decay
            return Piece(
                device=device,
                optimizer=optimizer,
                weights=tf.Variable(initial),
                slots=slots,
                average=average,
                decay_mask=tf.Variable(mask, trainable=False) if has_mask else None,
                is_linear=is_linear,
                schedule=linear.schedule if linear else None,
            )

    def _update(
        self, piece: Piece, gradient: tf.Tensor, *, step: tf.Tensor, learning_rate: tf.Tensor
    ) -> None:
        if piece.schedule:
            learning_rate = piece.schedule.rate(step)
        if piece.decay_mask is not None:
            rate = learning_rate * self._weight_decay
            piece.weights.assign_sub(rate * piece.decay_mask * piece.weights)
        piece.optimizer.apply(
            piece.weights, piece.slots, gradient, step=step, learning_rate=learning_rate
        )
        if piece.average is not None:
            self._follow(piece.average, piece.weights, step=step)

    def _follow(self, average: tf.Variable, values: tf.Variable, *, step: tf.Tensor) -> None:
        # While there are few steps, the first values must not weigh on the average.
        done = tf.cast(step, tf.float32)
        decay = tf.minimum(self._average_decay, (1 + done) / (10 + done))
        average.assign_add((1 - decay) * (values - average))


def _concat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    flat = [tf.reshape(tensor, [-1]) for tensor in tensors]
    return tf.concat(flat, 0) if flat else tf.zeros([0])


def _is_float(variable: Any) -> bool:
    return tf.as_dtype(variable.dtype).is_floating


def _counter(variable: Any, seed: tf.Tensor, index: int) -> tf.Tensor:
    value = tf.stack([seed[0] + index, seed[1]])
    return tf.cast(tf.reshape(value, variable.shape), tf.as_dtype(variable.dtype))
