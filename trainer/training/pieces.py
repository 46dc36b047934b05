"""Pieces of the weights, each on one device, and their places in the flat vector of all weights.

A piece is a part of the flat vector or, of a large embedding, some of its columns: every server
then has a part of each row.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainer.training.model.embeddings import EmbeddingPlace
from trainer.training.optimizers.base import Optimizer
from trainer.training.optimizers.late_rows import LateRows
from trainer.training.optimizers.rules import LinearPart
from trainer.training.optimizers.schedule import Schedule


@dataclass(frozen=True)
class PieceGroup:
    """The weights that are cut together: all linear ones, all other ones, or an embedding's."""

    is_linear: bool
    embedding: int | None = None
    """The number of a large embedding."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A piece of the weights on one device, with its optimizer and slots.

    Its variables are vectors, or matrices of all rows and some columns of an embedding.
    """

    device: str
    optimizer: Optimizer
    weights: tf.Variable
    slots: Mapping[str, tf.Variable]
    """The optimizer's variables, by its names for them: some like the weights, and others."""
    average: tf.Variable | None
    decay_mask: tf.Tensor | None
    group: PieceGroup
    schedule: Schedule | None
    """None for the schedule of the job."""
    late: LateRows | None = None
    """Rows of an embedding that are brought up to date when they are read."""

    def read(self) -> dict[str, tf.Tensor]:
        """Return the values of `vectors`, up to date."""
        if self.late is None:
            return {name: variable.read_value() for name, variable in self.vectors.items()}
        values = self.late.read()
        return {name: values[name.removeprefix(self._prefix)] for name in self.vectors}

    @property
    def vectors(self) -> dict[str, tf.Variable]:
        """The piece's weights, and what is of their shape, by the names in a checkpoint."""
        slots = {
            f"{self._prefix}{name}": variable
            for name, variable in self.slots.items()
            if self._is_vector(variable)
        }
        average = {} if self.average is None else {"average": self.average}
        return {"weights": self.weights, **slots, **average}

    @property
    def other_slots(self) -> dict[str, tf.Variable]:
        """The slots that are no vectors, by name.

        Pieces have equal ones under the same name: counts and products over all steps.
        """
        slots = self.slots.items()
        return {name: variable for name, variable in slots if not self._is_vector(variable)}

    @property
    def _prefix(self) -> str:
        return "linear_" if self.group.is_linear else ""

    def _is_vector(self, variable: tf.Variable) -> bool:
        return variable.shape == self.weights.shape and not self.optimizer.needs_layers


class PieceLayout:
    """The places of the pieces in the flat vector, by groups: large embeddings are the last.

    A group of a vector has a piece on each device. An embedding has one for each part of its
    columns, on as many devices.
    """

    def __init__(
        self,
        size: int,
        *,
        num_devices: int,
        linear: LinearPart | None,
        sizes: list[int] | None = None,
        embeddings: Sequence[EmbeddingPlace] = (),
    ):
        whole = linear.segments if linear else ((size, False),)
        self._segments = _segments(whole, embeddings)
        vectors = [PieceGroup(is_linear=False)]
        if linear:
            vectors.append(PieceGroup(is_linear=True))
        groups = sorted(
            {group for _, group in self._segments if group.embedding is not None},
            key=lambda group: group.embedding or 0,
        )
        self._sizes = {
            group: sizes or _even_sizes(self._size(group), num_devices) for group in vectors
        }
        self._columns = {
            group: _even_sizes(embedding.size, min(embedding.size, num_devices))
            for group, embedding in zip(groups, embeddings, strict=True)
        }

    @property
    def groups(self) -> list[PieceGroup]:
        """The group of each piece."""
        return [group for group, sizes in self._all.items() for _ in sizes]

    def split(
        self, flat: tf.Tensor, groups: Collection[PieceGroup] | None = None
    ) -> list[tf.Tensor]:
        """Return a vector of the weights of some groups, or of all, as one part for each piece."""
        chosen = self._chosen(groups)
        segments = [(size, group) for size, group in self._segments if group in chosen]
        vectors: dict[PieceGroup, list[tf.Tensor]] = {group: [] for group in chosen}
        parts = _split(flat, [size for size, _ in segments])
        for part, (_, group) in zip(parts, segments, strict=True):
            vectors[group].append(part)
        pieces = []
        for group, segment_parts in vectors.items():
            pieces += self._split_group(_concat(segment_parts), group)
        return pieces

    def join(
        self, parts: Sequence[tf.Tensor], groups: Collection[PieceGroup] | None = None
    ) -> tf.Tensor:
        """Return the vector that `split` would split into these parts."""
        chosen, rest = self._chosen(groups), iter(parts)
        segments = [(size, group) for size, group in self._segments if group in chosen]
        pieces = {}
        for group in chosen:
            vector = self._join_group([next(rest) for _ in self._all[group]], group)
            pieces[group] = iter(
                _split(vector, [size for size, owner in segments if owner == group])
            )
        return _concat([next(pieces[group]) for _, group in segments])

    def split_columns(self, values: tf.Tensor, group: PieceGroup) -> list[tf.Tensor]:
        """Return rows of an embedding as one part for each of its pieces."""
        columns = self._columns[group]
        return tf.split(values, columns, axis=1) if len(columns) > 1 else [values]

    @property
    def _all(self) -> dict[PieceGroup, list[int]]:
        return {**self._sizes, **self._columns}

    def _chosen(self, groups: Collection[PieceGroup] | None) -> list[PieceGroup]:
        return [group for group in self._all if groups is None or group in groups]

    def _split_group(self, vector: tf.Tensor, group: PieceGroup) -> list[tf.Tensor]:
        if group in self._columns:
            rows = tf.reshape(vector, [-1, sum(self._columns[group])])
            return self.split_columns(rows, group)
        return _split(vector, self._sizes[group])

    def _join_group(self, parts: Sequence[tf.Tensor], group: PieceGroup) -> tf.Tensor:
        if group in self._columns:
            return tf.reshape(tf.concat(parts, 1), [-1])
        return _concat(parts)

    def _size(self, group: PieceGroup) -> int:
        return sum(size for size, owner in self._segments if owner == group)


def _segments(
    whole: Sequence[tuple[int, bool]], embeddings: Sequence[EmbeddingPlace]
) -> list[tuple[int, PieceGroup]]:
    """Return (number of weights, group) of consecutive parts of the flat vector."""
    segments, end = [], 0
    for size, is_linear in whole:
        start, end = end, end + size
        for number, embedding in enumerate(embeddings):
            if start <= embedding.start < end:
                segments.append((embedding.start - start, PieceGroup(is_linear)))
                segments.append(
                    (embedding.num_rows * embedding.size, PieceGroup(is_linear, number))
                )
                start = embedding.start + embedding.num_rows * embedding.size
        segments.append((end - start, PieceGroup(is_linear)))
    return [(size, group) for size, group in segments if size]


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
    return tf.split(vector, sizes) if len(sizes) > 1 else [vector][: len(sizes)]


def _concat(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    if not parts:
        return tf.zeros([0])
    return tf.concat(parts, 0) if len(parts) > 1 else tf.identity(parts[0])
