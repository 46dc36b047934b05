"""The model's inputs that each feature of a table becomes, computed in the graph."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainer.runtime.lazy import keras, tf
from trainer.workloads.declarations.features import (
    Category,
    Feature,
    Image,
    Number,
    Text,
    TimePart,
    Timestamp,
)
from trainer.workloads.declarations.written import plain_text
from trainer.workloads.encoding.lookups import (
    bucketize,
    num_categories,
    number_hashes,
    number_integers,
    number_terms,
    tokenize,
)
from trainer.workloads.encoding.moments import NO_TIME, PART_LIMITS, cycle, time_part

Compute = Callable[..., Any]


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


def columns_of(feature: Feature, facts: TableFacts) -> list[Column]:
    """Return the inputs that a feature becomes."""
    if not feature.is_used:
        return []
    if isinstance(feature, Number):
        return list(_of_number(feature, facts))
    if isinstance(feature, Text):
        return [_of_text(feature, facts)]
    if isinstance(feature, Image):
        return [image_column(feature)]
    if isinstance(feature, Timestamp):
        return list(_of_timestamp(feature, facts))
    assert isinstance(feature, Category | TimePart), feature
    return [_of_category(feature, facts)]


def missing_integer(feature: Feature) -> int:
    """Return the number that stands for a missing whole number or moment."""
    if isinstance(feature, Timestamp):
        return NO_TIME
    low = getattr(feature, "low", None)
    return -1 if low is not None and low >= 0 else NO_TIME


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


def _of_number(feature: Number, facts: TableFacts) -> Iterator[Column]:
    name = feature.name
    if feature.buckets:
        boundaries = facts.boundaries.get(name, [])
        yield Column(
            name=f"{name}_bucket",
            key=name,
            kind="category",
            size=num_categories(len(boundaries) + 1),
            feature=name,
            compute=bucketize,
            vectors={"boundaries": boundaries},
        )
    if feature.is_scaled:
        low, high = -math.inf, math.inf
        if feature.is_clipped and name in facts.limits:
            low, high = facts.limits[name]
        mean, deviation = facts.moments.get(name, (0.0, 1.0))
        vectors = {"low": low, "high": high, "mean": mean, "deviation": deviation}
        yield Column(
            name=name,
            kind="number",
            size=feature.length or 1,
            feature=name,
            compute=_scale,
            vectors=vectors,
            shared={"is_logarithmic": feature.is_logarithmic},
        )
    if not (feature.buckets or feature.length or feature.is_required):
        yield Column(
            name=f"{name}_is_missing", kind="number", size=1, feature=name, compute=_is_missing
        )


def _scale(
    values: Any,
    *,
    low: Sequence[float],
    high: Sequence[float],
    mean: Sequence[float],
    deviation: Sequence[float],
    is_logarithmic: bool,
) -> Any:
    values = tf.clip_by_value(values, tf.constant(low), tf.constant(high))
    if is_logarithmic:
        values = tf.math.log1p(tf.maximum(values, 0.0))
    scaled = (values - tf.constant(mean)) / tf.constant(deviation)
    return tf.where(tf.math.is_finite(scaled), scaled, 0.0)


def _is_missing(values: Any) -> Any:
    return tf.cast(~tf.math.is_finite(values), tf.float32)


def _of_category(feature: Category | TimePart, facts: TableFacts) -> Column:
    name = feature.name
    compute: Compute = number_terms
    vectors: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    if isinstance(feature, TimePart) or feature.is_integer:
        low, high, compute = feature.low or 0, feature.high or 0, number_integers
        vectors = {"low": low, "high": high, "missing": missing_integer(feature)}
        size = high - low + 1
    elif feature.hashed:
        size, compute, shared = feature.hashed, number_hashes, {"num_hashes": feature.hashed}
    else:
        declared = list(map(plain_text, feature.values))
        terms = declared or list(facts.vocabularies.get(name, []))
        size, vectors = len(terms), {"vocabularies": terms}
    return Column(
        name=name,
        key="" if feature.is_list else name,
        kind="tokens" if feature.is_list else "category",
        size=num_categories(size),
        feature=name,
        compute=compute,
        vectors=vectors,
        shared=shared,
        length=feature.list_length,
    )


def image_column(feature: Image) -> Column:
    """Return the input of a picture, its pixels as they are stored."""
    name, size = feature.name, feature.channels
    return Column(name=name, kind="image", size=size, feature=name, shape=feature.shape)


def _of_text(feature: Text, facts: TableFacts) -> Column:
    name, length = feature.name, feature.max_length
    terms = facts.vocabularies.get(name, [])
    return Column(
        name=name,
        kind="tokens",
        size=num_categories(len(terms)),
        feature=name,
        compute=_number_tokens,
        vectors={"vocabularies": terms},
        shared={"max_length": length},
        length=length,
    )


def _number_tokens(texts: Any, *, vocabularies: Sequence[Sequence[str]], max_length: int) -> Any:
    return number_terms(tokenize(texts[:, 0], max_length=max_length), vocabularies=vocabularies)


def _of_timestamp(feature: Timestamp, facts: TableFacts) -> Iterator[Column]:
    name = feature.name
    cyclic = tuple(part for part in feature.parts if part in PART_LIMITS)
    for part in cyclic:
        yield Column(
            name=f"{name}_{part}",
            key=f"{name}_{part}",
            kind="category",
            size=num_categories(PART_LIMITS[part][1] - PART_LIMITS[part][0] + 1),
            feature=name,
            compute=_number_times,
            shared={"part": part},
        )
    if cyclic:
        yield Column(
            name=f"{name}_cycles",
            kind="number",
            size=2 * len(cyclic),
            feature=name,
            compute=_cycles,
            shared={"parts": cyclic},
        )
    if "year" in feature.parts:
        mean, deviation = facts.moments.get(name, (0.0, 1.0))
        yield Column(
            name=f"{name}_year",
            kind="number",
            size=1,
            feature=name,
            compute=_years,
            vectors={"mean": mean, "deviation": deviation},
        )


def _number_times(seconds: Any, *, part: str) -> Any:
    low, high = PART_LIMITS[part]
    parts = time_part(seconds, part)
    numbers = number_integers(parts, low=[low], high=[high], missing=[NO_TIME])
    return tf.where(seconds == NO_TIME, 0, numbers)


def _cycles(seconds: Any, *, parts: Sequence[str]) -> Any:
    cycles = tf.concat([cycle(time_part(seconds, part), part) for part in parts], axis=2)
    known = tf.where((seconds == NO_TIME)[:, :, tf.newaxis], 0.0, cycles)
    return tf.reshape(known, [-1, known.shape[1] * known.shape[2]])


def _years(seconds: Any, *, mean: Sequence[float], deviation: Sequence[float]) -> Any:
    """Return the time since the train split's mean, in its standard deviations."""
    since = tf.cast(seconds, tf.float64) - tf.constant(mean, tf.float64)
    scaled = tf.cast(since / tf.constant(deviation, tf.float64), tf.float32)
    return tf.where(seconds == NO_TIME, 0.0, scaled)
