"""The model's inputs that each feature of a table becomes, computed in the graph."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainer.runtime.lazy import keras, tf

Compute = Callable[..., Any]

# Zeros and ones of categories that a linear model gets, of all columns together.
_MAX_ZEROS_AND_ONES = 1000


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """Facts learnt from the train split, by feature.

    Attributes:
        boundaries: of the buckets of numbers.
        vocabularies: of texts, the most frequent first.
        moments: mean and standard deviation of numbers, moments in time and a Regression label.
        limits: the 1st and the 99th percentile of clipped numbers.
        edges: of the pieces in which the default model is linear in a number, scaled like it.
        classes: of a label that does not declare them, in order.
        class_counts: (stored class, examples), if weights are balanced.
    """

    boundaries: Mapping[str, list[float]] = field(default_factory=dict)
    vocabularies: Mapping[str, list[str]] = field(default_factory=dict)
    moments: Mapping[str, list[float]] = field(default_factory=dict)
    limits: Mapping[str, list[float]] = field(default_factory=dict)
    edges: Mapping[str, list[float]] = field(default_factory=dict)
    classes: tuple[str | int, ...] = ()
    class_counts: Sequence[Sequence[Any]] = ()


@dataclass(frozen=True, kw_only=True)
class Column:
    """One input of a model.

    Attributes:
        name: the feature's name, with what it is if the feature becomes several inputs.
        key: the name of a category in crosses.
        kind: `category`: a number below `size`, int32 [batch]; `number`: float32 [batch, size];
            `tokens`: categories below `size`, int32 [batch, length], 0 after the last one; `raw`:
            the file's own values, [batch, size]; `image`: uint8 pixels [batch, *shape], of `size`
            channels.
        dtype: of raw values.
        feature: the feature's name.
        compute: returns the tensor of columns of one kind, from their raw values [batch, columns].
        vectors: arguments of `compute`, of which it gets a list with the value of each column.
        shared: arguments of `compute` that are the same for all columns.
    """

    name: str
    kind: str
    size: int
    feature: str
    compute: Compute | None = None
    vectors: Mapping[str, Any] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    length: int = 0
    dtype: str = ""
    shape: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """The number of values in an example."""
        return {"category": 1, "tokens": self.length}.get(self.kind, self.size)

    def keras_input(self) -> Any:
        """Return the input of a model; one of categories has an attribute `num_categories`."""
        if self.kind in ("number", "raw"):
            return keras.Input([self.size], name=self.name, dtype=self.dtype or None)
        if self.kind == "image":
            return keras.Input([*self.shape[:2], self.size], name=self.name)
        shape = [self.length] if self.kind == "tokens" else []
        categories = keras.Input(shape, name=self.name, dtype="int32")
        categories.num_categories = self.size
        return categories


def compute_columns(columns: Sequence[Column], features: Mapping[str, Any]) -> Any:
    """Return columns side by side, [batch, width of all]; those that are alike as one matrix."""
    alike: dict[Any, list[int]] = defaultdict(list)
    for number, column in enumerate(columns):
        is_list = len(features[column.feature].shape) > 1
        alike[column.compute, *column.shared.items(), number if is_list else None].append(number)
    blocks = []
    for numbers in alike.values():
        first = columns[numbers[0]]
        values = [features[columns[number].feature] for number in numbers]
        matrix = tf.stack(values, axis=1) if len(values[0].shape) == 1 else values[0]
        vectors = {
            name: [columns[number].vectors[name] for number in numbers] for name in first.vectors
        }
        blocks.append(first.compute(matrix, **vectors, **first.shared) if first.compute else matrix)
    if len(blocks) == 1:
        return blocks[0]
    computed = [number for numbers in alike.values() for number in numbers]
    ends = np.cumsum([columns[number].width for number in computed])
    places = {
        number: range(end - columns[number].width, end)
        for number, end in zip(computed, ends, strict=True)
    }
    order = [place for number in range(len(columns)) for place in places[number]]
    return tf.gather(tf.concat(blocks, axis=1), np.array(order, np.int32), axis=1)


def split_columns(columns: Sequence[Column], features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the numbers [batch, size] and categories [batch] among columns, by name in order."""
    separate: dict[str, np.ndarray] = {}
    for kind in ("number", "category"):
        if chosen := [column for column in columns if column.kind == kind]:
            ends = np.cumsum([column.width for column in chosen])[:-1]
            parts = np.split(compute_columns(chosen, features).numpy(), ends, axis=1)
            for column, part in zip(chosen, parts, strict=True):
                separate[column.name] = part if kind == "number" else part[:, 0]
    return {column.name: separate[column.name] for column in columns if column.name in separate}


def linear_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the columns of a linear model: numbers, then categories unless there are too many."""
    chosen = [column for column in columns if column.kind == "number"]
    categories = [column for column in columns if column.kind == "category"]
    sizes = sorted(column.size for column in categories)
    most = max(np.extract(np.cumsum(sizes) <= _MAX_ZEROS_AND_ONES, sizes), default=0)
    return [*chosen, *(column for column in categories if column.size <= most)]


def linear_inputs(columns: Sequence[Column], features: Mapping[str, Any]) -> np.ndarray:
    """Return numbers, and zeros and ones of categories, float32 [batch, n]."""
    pieces = [
        np.eye(column.size, dtype=np.float32)[values] if column.kind == "category" else values
        for column, values in zip(columns, split_columns(columns, features).values(), strict=True)
    ]
    return np.concatenate(pieces, axis=1)
