"""The variables of training: weights, optimizer slots, model state and step count.

They are flat vectors (see `trainer.training.model`), cut into pieces: the linear weights and the
others, if these have different optimizers, and each of the two over the parameter servers. Here
the variables are made, read, saved and restored; `trainer.training.step` updates them.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainer.training.optimizers import Adam, Optimizer
from trainer.training.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class LinearPart:
    """The weights of a model's linear part, which have an optimizer and a schedule of their own.

    `segments` are (number of weights, are they linear) and make up the whole flat vector.
    """

    segments: tuple[tuple[int, bool], ...]
    optimizer: Optimizer
    schedule: Schedule


@dataclass(frozen=True, kw_only=True)
class Average:
    """The moving average of the weights, which is evaluated and exported.

    Ours decays faster in the first steps, and averages the state as well. That of Keras starts with
    the weights after the first step, and with `overwrite_every` replaces the weights, too.
    """

    decay: float
    is_keras: bool = False
    overwrite_every: int = 0

    @property
    def has_state(self) -> bool:
        """True if the state is averaged, too."""
        return not self.is_keras


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A piece of the flat vector of weights on one device, with its optimizer and slots."""

    device: str
    optimizer: Optimizer
    weights: tf.Variable
    slots: Mapping[str, tf.Variable]
    """The optimizer's variables, by its names for them: vectors like the weights, and others."""
    average: tf.Variable | None
    decay_mask: tf.Tensor | None
    is_linear: bool
    schedule: Schedule | None
    """None for the schedule of the job."""

    @property
    def vectors(self) -> dict[str, tf.Variable]:
        """The piece's vectors by their names in a checkpoint."""
        prefix = "linear_" if self.is_linear else ""
        slots = {
            f"{prefix}{name}": variable
            for name, variable in self.slots.items()
            if self._is_vector(variable)
        }
        average = {} if self.average is None else {"average": self.average}
        return {"weights": self.weights, **slots, **average}

    @property
    def others(self) -> dict[str, tf.Variable]:
        """The slots that are no vectors, by name.

        Pieces have equal ones under the same name: counts and products over all steps.
        """
        slots = self.slots.items()
        return {name: variable for name, variable in slots if not self._is_vector(variable)}

    def _is_vector(self, variable: tf.Variable) -> bool:
        return variable.shape == self.weights.shape and not self.optimizer.needs_layers


class Parameters:
    """All variables of training, spread over the given devices.

    Several workers may pull and update at once. Each call that is in flight to a worker has a
    counter of the steps it has applied, so that its rest can be repeated if the worker is lost.
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
        average: Average | None = None,
        num_counters: int = 0,
        linear: LinearPart | None = None,
        layers: Sequence[Any] = (),
        rate: tf.Variable | None = None,
    ):
        self._optimizer, self._linear = optimizer or Adam(), linear
        self.weight_decay, self.rate = weight_decay, rate
        self.requested_rate = 0.0
        """The learning rate that a callback wants; the driver sets it between two calls."""
        self.average = average or (Average(decay=average_decay) if average_decay else None)
        self._is_shared = num_counters > 0
        needs_layers = self._optimizer.needs_layers
        self._layers = _divide(layers, len(devices)) if needs_layers else [[] for _ in devices]
        sizes = [sum(_size(one) for _, one in part) for part in self._layers]
        self._cut = _Cut(
            initial.shape[0],
            num_devices=len(devices),
            linear=linear,
            sizes=sizes if needs_layers else None,
        )
        groups = self._cut.groups
        has_mask = decay_mask is not None and weight_decay
        self.pieces = [
            self._make_piece(part, device, mask, layers=layers, is_linear=is_linear)
            for part, layers, device, mask, is_linear in zip(
                self._cut.split(initial),
                itertools.islice(itertools.cycle(self._layers), len(groups)),
                itertools.islice(itertools.cycle(devices[: len(self._layers)]), len(groups)),
                self._cut.split(decay_mask) if has_mask else [None] * len(groups),
                groups,
                strict=True,
            )
        ]
        with tf.device(devices[0]):
            # The global step, then the counters: one variable, so that one atomic operation
            # counts a step in both.
            self._counts = tf.Variable(tf.zeros([1 + num_counters], tf.int64), name="global_step")
            self.state = tf.Variable(tf.zeros([0]) if state is None else state)
            # Averaged weights need statistics averaged like them, not those of the last step.
            self.average_state = (
                tf.Variable(self.state) if self.average and self.average.has_state else self.state
            )

    def pull(self) -> tf.Tensor:
        """Return the current weights."""
        return self._cut.join([piece.weights.read_value() for piece in self.pieces])

    def pull_state(self) -> tf.Tensor:
        """Return the current state of the model."""
        return self.state.read_value() if self.state.shape[0] else tf.zeros([0])

    def split(self, gradient: tf.Tensor) -> list[tf.Tensor]:
        """Return the gradient of each piece."""
        return self._cut.split(gradient)

    def count_step(self, *, counter: tf.Tensor | None = None) -> tf.Tensor:
        """Count one step, in a call's counter as well if there is one; return the global step."""
        ones = self._one_hot(0)
        if counter is not None:
            ones += self._one_hot(1 + counter)
        return self._counts.assign_add(ones, read_value=True)[0]

    def num_steps(self) -> int:
        """Return the global step: the number of steps applied so far."""
        return int(self._counts.read_value()[0])

    def steps_done(self, counter: tf.Tensor) -> tf.Tensor:
        """Return the number of steps in a counter since it was reset."""
        with tf.device(self.pieces[0].device):
            return self._counts.read_value()[1 + counter]

    def reset_counter(self, counter: int) -> None:
        """Set a counter to zero while other workers go on counting in theirs."""
        done = int(self._counts.read_value()[1 + counter])
        self._counts.assign_add(-done * self._one_hot(1 + counter), read_value=False)

    def snapshot(self) -> dict[str, tf.Tensor]:
        """Return local copies: global_step, weights, state, and optimizer slots by name.

        Also `steps_done`, the value of each counter at that same global step.
        """
        counts = tf.identity(self._counts.read_value())
        return {
            "global_step": counts[0],
            "steps_done": counts[1:],
            "weights": self.pull(),
            "state": tf.identity(self.pull_state()),
            **(
                {"average_state": tf.identity(self.average_state)}
                if self._has_average_state
                else {}
            ),
            **{name: self._join(name) for name in self.vector_names if name != "weights"},
            **{name: tf.identity(variables[0]) for name, variables in self._others().items()},
            **({} if self.rate is None else {"learning_rate": tf.identity(self.rate)}),
        }

    def load(self, snapshot: Mapping[str, tf.Tensor]) -> None:
        """Restore a snapshot, of this cluster or another; all counters are zero then."""
        zeros = tf.zeros([self._counts.shape[0] - 1], tf.int64)
        self._counts.assign(tf.concat([snapshot["global_step"][tf.newaxis], zeros], 0))
        self.state.assign(snapshot["state"])
        self.average_state.assign(snapshot.get("average_state", snapshot["state"]))
        for name in self.vector_names:
            pieces = self._pieces_with(name)
            is_whole = len(pieces) == len(self.pieces)
            parts = (
                self._cut.split(snapshot[name])
                if is_whole
                else self._cut.split_group(snapshot[name], is_linear=pieces[0].is_linear)
            )
            for piece, part in zip(pieces, parts, strict=True):
                piece.vectors[name].assign(part)
        for name, variables in self._others().items():
            for variable in variables:
                variable.assign(snapshot[name])
        if self.rate is not None:
            self.rate.assign(snapshot["learning_rate"])

    @property
    def _has_average_state(self) -> bool:
        return self.average_state is not self.state

    def _others(self) -> dict[str, list[tf.Variable]]:
        names = dict.fromkeys(name for piece in self.pieces for name in piece.others)
        return {
            name: [piece.others[name] for piece in self.pieces if name in piece.others]
            for name in names
        }

    @property
    def vector_names(self) -> list[str]:
        """Names of the weights and of the vectors that all or some pieces hold beside them."""
        return list(dict.fromkeys(name for piece in self.pieces for name in piece.vectors))

    def _pieces_with(self, name: str) -> list[Piece]:
        return [piece for piece in self.pieces if name in piece.vectors]

    def _join(self, name: str) -> tf.Tensor:
        pieces = self._pieces_with(name)
        parts = [piece.vectors[name].read_value() for piece in pieces]
        return self._cut.join(parts) if len(pieces) == len(self.pieces) else tf.concat(parts, 0)

    def _one_hot(self, index: tf.Tensor | int) -> tf.Tensor:
        return tf.one_hot(index, self._counts.shape[0], dtype=tf.int64)

    def _make_piece(
        self,
        initial: tf.Tensor,
        device: str,
        mask: tf.Tensor | None,
        *,
        layers: Sequence[tuple[int, Any]],
        is_linear: bool,
    ) -> Piece:
        linear = self._linear if is_linear else None
        optimizer = linear.optimizer if linear else self._optimizer
        with tf.device(device):
            optimizer = optimizer.for_piece(layers, is_shared=self._is_shared)
            weights = tf.Variable(initial, name="weights")
            average = tf.Variable(initial) if self.average else None
            has_mask = mask is not None and optimizer.allows_decay
            return Piece(
                device=device,
                optimizer=optimizer,
                weights=weights,
                slots=optimizer.make_slots(weights),
                average=average,
                decay_mask=tf.Variable(mask, trainable=False) if has_mask else None,
                is_linear=is_linear,
                schedule=linear.schedule if linear else None,
            )


class _Cut:
    """The places of the pieces in the flat vector: the non-linear ones first, one per device."""

    def __init__(
        self,
        size: int,
        *,
        num_devices: int,
        linear: LinearPart | None,
        sizes: list[int] | None = None,
    ):
        self._segments = linear.segments if linear else ((size, False),)
        groups = [False, True] if linear else [False]
        self._sizes = {
            group: sizes or _even_sizes(self._size(group), num_devices) for group in groups
        }

    @property
    def groups(self) -> list[bool]:
        """For each piece, True if its weights are linear."""
        return [group for group, sizes in self._sizes.items() for _ in sizes]

    def split(self, flat: tf.Tensor) -> list[tf.Tensor]:
        """Return a vector of all weights as one part for each piece."""
        parts = _split(flat, [size for size, _ in self._segments])
        return [
            piece
            for group in self._sizes
            for piece in self.split_group(
                _concat([p for p, (_, g) in zip(parts, self._segments, strict=True) if g == group]),
                is_linear=group,
            )
        ]

    def split_group(self, vector: tf.Tensor, *, is_linear: bool) -> list[tf.Tensor]:
        """Return a vector of the linear or the other weights as one part for each piece."""
        return _split(vector, self._sizes[is_linear])

    def join(self, parts: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the vector that `split` would split into these parts."""
        if len(self._segments) == 1:
            return _concat(parts)
        groups = {}
        pairs = zip(self.groups, parts, strict=True)
        for group, members in itertools.groupby(pairs, lambda pair: pair[0]):
            sizes = [size for size, is_linear in self._segments if is_linear == group]
            groups[group] = iter(_split(_concat([part for _, part in members]), sizes))
        return _concat([next(groups[group]) for _, group in self._segments])

    def _size(self, group: bool) -> int:
        return sum(size for size, is_linear in self._segments if is_linear == group)


def _divide(layers: Sequence[Any], num_parts: int) -> list[list[tuple[int, Any]]]:
    """Return the (number, variable) of the layers of each part: whole ones, in order, about even.

    There are fewer parts if there are fewer layers.
    """
    total, done = sum(map(_size, layers)), 0
    parts: list[list[tuple[int, Any]]] = [[] for _ in range(num_parts)]
    for number, layer in enumerate(layers):
        middle = done + _size(layer) / 2
        parts[min(int(middle * num_parts / total), num_parts - 1)].append((number, layer))
        done += _size(layer)
    return [part for part in parts if part]


def _size(variable: Any) -> int:
    return math.prod(variable.shape)


def _even_sizes(size: int, num_parts: int) -> list[int]:
    return [size // num_parts + (index < size % num_parts) for index in range(num_parts)]


def _split(vector: tf.Tensor, sizes: Sequence[int]) -> list[Any]:
    return tf.split(vector, sizes) if len(sizes) > 1 else [vector]


def _concat(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat(parts, 0) if len(parts) > 1 else tf.identity(parts[0])
