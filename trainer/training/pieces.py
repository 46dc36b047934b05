"""Pieces of the flat vector of weights, each on one device, and their places in the vector."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainer.training.optimizers import Optimizer
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


class Cut:
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


def divide_layers(layers: Sequence[Any], num_parts: int) -> list[list[tuple[int, Any]]]:
    """Return the (number, variable) of the layers of each part: whole ones, in order, about even.

    There are fewer parts if there are fewer layers.
    """
    total, done = sum(map(num_weights, layers)), 0
    parts: list[list[tuple[int, Any]]] = [[] for _ in range(num_parts)]
    for number, layer in enumerate(layers):
        middle = done + num_weights(layer) / 2
        parts[min(int(middle * num_parts / total), num_parts - 1)].append((number, layer))
        done += num_weights(layer)
    return [part for part in parts if part]


def num_weights(variable: Any) -> int:
    """Return the number of weights in a variable."""
    return math.prod(variable.shape)


def _even_sizes(size: int, num_parts: int) -> list[int]:
    return [size // num_parts + (index < size % num_parts) for index in range(num_parts)]


def _split(vector: tf.Tensor, sizes: Sequence[int]) -> list[Any]:
    return tf.split(vector, sizes) if len(sizes) > 1 else [vector]


def _concat(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat(parts, 0) if len(parts) > 1 else tf.identity(parts[0])
