"""The flat vector of weights, cut into pieces: by optimizer, and then over the servers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import tensorflow as tf

from trainer.training.optimizers import Optimizer
from trainer.training.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class LinearPart:
    """The weights of a model's linear part, which have an optimizer and a schedule of their own.

    `segments` are (number of weights, whether they are linear) and make up the whole flat vector.
    """

    segments: tuple[tuple[int, bool], ...]
    optimizer: Optimizer
    schedule: Schedule


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of the flat vector on one device, with the vectors that go with it."""

    device: str
    optimizer: Optimizer
    weights: tf.Variable
    slots: Mapping[str, tf.Variable]
    """Of the optimizer, by its own names for them."""
    average: tf.Variable | None
    decay_mask: tf.Tensor | None
    is_linear: bool
    schedule: Schedule | None
    """None: the one of the job."""

    @property
    def vectors(self) -> dict[str, tf.Variable]:
        """All that is saved of it, by the names in a checkpoint."""
        prefix = "linear_" if self.is_linear else ""
        slots = {f"{prefix}{name}": variable for name, variable in self.slots.items()}
        average = {} if self.average is None else {"average": self.average}
        return {"weights": self.weights, **slots, **average}


class Cut:
    """Where the pieces lie: first those of all weights that are not linear, a piece a device."""

    def __init__(self, size: int, *, num_devices: int, linear: LinearPart | None):
        self._segments = linear.segments if linear else ((size, False),)
        groups = [False, True] if linear else [False]
        self._sizes = {group: _even_sizes(self._size(group), num_devices) for group in groups}

    @property
    def groups(self) -> list[bool]:
        """For each piece whether its weights are linear ones."""
        return [group for group, sizes in self._sizes.items() for _ in sizes]

    def split(self, flat: tf.Tensor) -> list[tf.Tensor]:
        """Returns the parts of a vector of all weights, one for each piece."""
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
        """Returns the parts of a vector that goes with the pieces of one optimizer."""
        return _split(vector, self._sizes[is_linear])

    def join(self, parts: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the vector that `split` would cut into these parts."""
        if len(self._segments) == 1:
            return _concat(parts)
        found = {}
        for group, pairs in groupby(zip(self.groups, parts, strict=True), lambda pair: pair[0]):
            sizes = [size for size, is_linear in self._segments if is_linear == group]
            found[group] = iter(_split(_concat([part for _, part in pairs]), sizes))
        return _concat([next(found[group]) for _, group in self._segments])

    def _size(self, group: bool) -> int:
        return sum(size for size, is_linear in self._segments if is_linear == group)


def _even_sizes(size: int, num_parts: int) -> list[int]:
    return [size // num_parts + (index < size % num_parts) for index in range(num_parts)]


def _split(vector: tf.Tensor, sizes: Sequence[int]) -> list[Any]:
    return tf.split(vector, sizes) if len(sizes) > 1 else [vector]


def _concat(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat(parts, 0) if len(parts) > 1 else tf.identity(parts[0])
