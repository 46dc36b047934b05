"""The model's inputs that each feature of a table becomes, computed in the graph."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer.workloads.base import Features
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
)
from trainer.workloads.encoding.moments import NO_TIME, PART_LIMITS, cycle, time_part
from trainer.workloads.encoding.tokens import tokenize

Compute = Callable[[Features], Any]


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
    """

    boundaries: Mapping[str, list[float]] = field(default_factory=dict)
    vocabularies: Mapping[str, list[str]] = field(default_factory=dict)
    moments: Mapping[str, list[float]] = field(default_factory=dict)
    limits: Mapping[str, list[float]] = field(default_factory=dict)
    edges: Mapping[str, list[float]] = field(default_factory=dict)
    classes: tuple[str | int, ...] = ()


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
        compute: returns the tensor from the raw features.
    """

    name: str
    kind: str
    size: int
    compute: Compute
    key: str = ""
    length: int = 0
    dtype: str = ""
    shape: tuple[int, ...] = ()

    def keras_input(self) -> Any:
        """Return the input of a model; one of categories has an attribute `num_categories`."""
        import keras

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
        return _of_number(feature, facts)
    if isinstance(feature, Text):
        return [_of_text(feature, facts)]
    if isinstance(feature, Image):
        return [image_column(feature)]
    if isinstance(feature, Timestamp):
        return _of_timestamp(feature, facts)
    assert isinstance(feature, Category | TimePart), feature
    return [_of_category(feature, facts)]


def missing_integer(feature: Feature) -> int:
    """Return the number that stands for a missing whole number or moment."""
    if isinstance(feature, Timestamp):
        return NO_TIME
    low = getattr(feature, "low", None)
    return -1 if low is not None and low >= 0 else NO_TIME


def _of_number(feature: Number, facts: TableFacts) -> list[Column]:
    name, columns = feature.name, []
    if feature.buckets:
        boundaries = facts.boundaries.get(name, [])
        columns.append(
            Column(
                name=f"{name}_bucket",
                key=name,
                kind="category",
                size=num_categories(len(boundaries) + 1),
                compute=lambda features: bucketize(features[name], boundaries),
            )
        )
    if feature.is_scaled:
        size = feature.length or 1
        columns.append(
            Column(
                name=name,
                kind="number",
                size=size,
                compute=lambda features: _scale(features[name], feature, facts, size),
            )
        )
    if not (feature.buckets or feature.length or feature.is_required):
        columns.append(
            Column(
                name=f"{name}_is_missing",
                kind="number",
                size=1,
                compute=lambda features: _is_missing(features[name]),
            )
        )
    return columns


def _scale(values: Any, feature: Number, facts: TableFacts, size: int) -> Any:
    import tensorflow as tf

    mean, deviation = facts.moments.get(feature.name, (0.0, 1.0))
    if feature.is_clipped and feature.name in facts.limits:
        values = tf.clip_by_value(values, *facts.limits[feature.name])
    if feature.is_logarithmic:
        values = tf.math.log1p(tf.maximum(values, 0.0))
    scaled = (values - mean) / deviation
    return tf.reshape(tf.where(tf.math.is_finite(scaled), scaled, 0.0), [-1, size])


def _is_missing(values: Any) -> Any:
    import tensorflow as tf

    return tf.cast(~tf.math.is_finite(values), tf.float32)[:, tf.newaxis]


def _of_category(feature: Category | TimePart, facts: TableFacts) -> Column:
    name = feature.name
    if isinstance(feature, TimePart) or feature.is_integer:
        low, high, missing = feature.low or 0, feature.high or 0, missing_integer(feature)
        size = high - low + 1

        def compute(features: Features) -> Any:
            return number_integers(features[name], low=low, high=high, missing=missing)

    elif feature.hashed:
        size = feature.hashed

        def compute(features: Features) -> Any:
            return number_hashes(features[name], size)

    else:
        declared = list(map(plain_text, feature.values))
        terms = declared or list(facts.vocabularies.get(name, []))
        size = len(terms)

        def compute(features: Features) -> Any:
            return number_terms(features[name], terms)

    is_list = isinstance(feature, Category) and bool(feature.separator)
    return Column(
        name=name,
        key="" if is_list else name,
        kind="tokens" if is_list else "category",
        size=num_categories(size),
        compute=compute,
        length=feature.max_length if isinstance(feature, Category) and is_list else 0,
    )


def image_column(feature: Image) -> Column:
    """Return the input of a picture, its pixels as they are stored."""
    name = feature.name
    return Column(
        name=name,
        kind="image",
        size=feature.channels,
        compute=lambda features: features[name],
        shape=feature.shape,
    )


def _of_text(feature: Text, facts: TableFacts) -> Column:
    name, length = feature.name, feature.max_length
    terms = facts.vocabularies.get(name, [])
    return Column(
        name=name,
        kind="tokens",
        size=num_categories(len(terms)),
        compute=lambda features: number_terms(tokenize(features[name], max_length=length), terms),
        length=length,
    )


def _of_timestamp(feature: Timestamp, facts: TableFacts) -> list[Column]:
    name = feature.name
    cyclic = [part for part in feature.parts if part in PART_LIMITS]
    columns = [_time_category(name, part) for part in cyclic]
    if cyclic:
        columns.append(
            Column(
                name=f"{name}_cycles",
                kind="number",
                size=2 * len(cyclic),
                compute=lambda features: _cycles(features[name], cyclic),
            )
        )
    if "year" in feature.parts:
        columns.append(
            Column(
                name=f"{name}_year",
                kind="number",
                size=1,
                compute=lambda features: _years(features[name], name, facts),
            )
        )
    return columns


def _time_category(name: str, part: str) -> Column:
    low, high = PART_LIMITS[part]

    def compute(features: Features) -> Any:
        import tensorflow as tf

        seconds = features[name]
        numbers = number_integers(time_part(seconds, part), low=low, high=high, missing=NO_TIME)
        return tf.where(seconds == NO_TIME, 0, numbers)

    return Column(
        name=f"{name}_{part}",
        key=f"{name}_{part}",
        kind="category",
        size=num_categories(high - low + 1),
        compute=compute,
    )


def _cycles(seconds: Any, parts: list[str]) -> Any:
    import tensorflow as tf

    cycles = tf.concat([cycle(time_part(seconds, part), part) for part in parts], axis=1)
    return tf.where((seconds == NO_TIME)[:, tf.newaxis], 0.0, cycles)


def _years(seconds: Any, name: str, facts: TableFacts) -> Any:
    """Return the time since the train split's mean, in its standard deviations."""
    import tensorflow as tf

    mean, deviation = facts.moments.get(name, (0.0, 1.0))
    scaled = (tf.cast(seconds, tf.float64) - mean) / deviation
    return tf.where(seconds == NO_TIME, 0.0, tf.cast(scaled, tf.float32))[:, tf.newaxis]
