"""The feature Number."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from trainer.runtime.lazy import tf
from trainer.workloads.declarations.features.base import (
    Feature,
    check_limits,
    items_of,
    read_number,
)
from trainer.workloads.declarations.storage import FLOAT
from trainer.workloads.declarations.written import NumberLimits, Written
from trainer.workloads.encoding.columns import Column, TableFacts
from trainer.workloads.encoding.lookups import Distribution, bucketize, num_categories

BRACKETS = "[]() "  # around a list of numbers in a text
_LIMITS = (0.01, 0.99)  # the shares of the values below those to which numbers are clipped
NUM_PIECES = 25  # of the default model: whole percentiles, which statistics.json has
_FEWEST_VALUES = 500  # with fewer the pieces learn noise


@dataclass(frozen=True)
class Number(Feature, Written, NumberLimits):
    """A number, stored as float32; the model gets it scaled to mean 0 and deviation 1.

    Attributes:
        low, high: the possible values; rows with others are quarantined. None: any.
        unit: for messages.
        is_logarithmic: scale log(1 + value) instead.
        buckets: also give the model the number of the value's quantile bucket, of this many.
        is_scaled: give the model the scaled number; False with buckets: only the bucket.
        is_clipped: limit values to the train split's 1st and 99th percentile before scaling.
        length: the numbers of a list, such as an embedding; 0 for a single number.
        separator: what separates the numbers of a list in a text column.
    """

    _: KW_ONLY
    low: float | None = None
    high: float | None = None
    unit: str = ""
    is_logarithmic: bool = False
    buckets: int = 0
    is_scaled: bool = True
    is_clipped: bool = False
    length: int = 0
    separator: str = ","

    storage = FLOAT
    missing_value = math.nan

    @property
    def list_length(self) -> int:
        """The numbers of a list, 0 for a single number."""
        return self.length

    def check(self, features: Sequence[Feature]) -> None:
        super().check(features)
        check_limits(self)
        if self.buckets < 0 or self.buckets == 1:
            raise ValueError(f"{self.name}: buckets is {self.buckets}; it must be 2 or more, or 0")
        if self.is_used and not (self.is_scaled or self.buckets):
            raise ValueError(
                f"{self.name}: with is_scaled=False it needs buckets, or is_used=False"
            )
        if self.length and self.buckets:
            raise ValueError(f"{self.name}: a list of numbers has no buckets")

    def most_categories(self) -> dict[str, int]:
        return {self.name: self.buckets} if self.buckets else {}

    def columns(self, facts: TableFacts) -> list[Column]:
        name, columns = self.name, list[Column]()
        if self.buckets:
            boundaries = facts.boundaries.get(name, [])
            size, vectors = num_categories(len(boundaries) + 1), {"boundaries": boundaries}
            bucket = {"key": name, "compute": bucketize, "vectors": vectors}
            columns.append(self.column("category", size, suffix="_bucket", **bucket))
        if self.is_scaled:
            low, high = facts.limits.get(name, (-math.inf, math.inf))
            mean, deviation = facts.moments.get(name, (0.0, 1.0))
            scaled = self.column(
                "number",
                self.length or 1,
                compute=_scale,
                vectors={"low": low, "high": high, "mean": mean, "deviation": deviation},
                shared={"is_logarithmic": self.is_logarithmic},
            )
            columns.append(scaled)
        if not (self.buckets or self.length or self.is_required):
            columns.append(self.column("number", 1, suffix="_is_missing", compute=_is_missing))
        return columns

    def learn(self, source: Any, *, has_edges: bool) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if self.buckets:
            facts["boundaries"] = source.distribution(self.name).boundaries(self.buckets)
        if self.is_clipped:
            facts["limits"] = source.distribution(self.name).quantiles(_LIMITS) or [0.0, 0.0]
        if not self.is_scaled:
            return facts

        def clipped() -> Distribution:  # statistics of lists have none
            return source.distribution(self.name).clipped(facts.get("limits"))

        if self.is_logarithmic or self.is_clipped:
            facts["moments"] = clipped().moments(is_logarithmic=self.is_logarithmic)
        else:
            facts["moments"] = source.moments(self.name)
        if has_edges and not (self.buckets or self.length):
            facts["edges"] = self._edges(clipped(), *facts["moments"])
        return facts

    def _edges(self, clipped: Distribution, mean: float, deviation: float) -> list[float]:
        """Return the ends of pieces with equally many values, scaled; [] without any."""
        # Percentiles stand for at least a thousand values.
        if not clipped.is_percentiles and clipped.counts.sum() < _FEWEST_VALUES:
            return []
        inner = clipped.boundaries(NUM_PIECES)
        values = np.array([*clipped.values[:1], *inner, *clipped.values[-1:]], np.float64)
        if self.is_logarithmic:
            values = np.log1p(np.maximum(values, 0))
        edges = np.unique((values - mean) / deviation)
        return [float(edge) for edge in edges] if len(edges) > 1 else []

    def example_spec(self) -> Any:
        if not self.length:
            return super().example_spec()
        return tf.io.FixedLenFeature([self.length], self.dtype, [math.nan] * self.length)

    def decoded(self, parsed: Any) -> Any:
        return parsed

    def parse_one(self, value: Any) -> np.ndarray:
        number = read_number(self, value, self)
        if number is None:
            return np.asarray(math.nan, np.float32)
        stored = _as_float32(number)
        if np.isinf(stored):
            raise ValueError(f"{self.name} is {value!r:.40}; it is too large for a float32")
        return stored

    def parse_list(self, value: Any) -> np.ndarray:
        if value is None or self.is_marker(value):
            return np.full(self.length, self.parse_one(None))
        items = items_of(self, value.strip(BRACKETS) if isinstance(value, str) else value)
        if items and len(items) != self.length:
            raise ValueError(f"{self.name} has {len(items)} numbers; it must have {self.length}")
        return np.stack([self.parse_one(item) for item in items or [None] * self.length])

    def plain_column(self, values: list[Any]) -> np.ndarray | None:
        if self.missing or not set(map(type, values)) <= {int, float, type(None)}:
            return None
        column = _as_float32([math.nan if value is None else value for value in values])
        sent = [value for value in values if value is not None]
        return None if np.isinf(column).any() or any(map(math.isnan, sent)) else column

    def are_missing(self, values: np.ndarray) -> np.ndarray:
        return np.isnan(values)

    def as_field(self, value: Any) -> Any:
        items = [self.as_item(item) for item in np.atleast_1d(value)]
        if all(item is None for item in items):
            return None
        return items if self.is_list else items[0]

    def as_item(self, value: Any) -> Any:
        # As a person writes it, 4.7: the same float32 as 4.699999809265137.
        return float(str(np.float32(value))) if np.isfinite(value) else None


def _as_float32(values: Any) -> np.ndarray:
    """Return numbers as float32; those that are too large become infinite."""
    try:
        numbers = np.asarray(values, np.float64)
    except OverflowError:  # a whole number of hundreds of digits
        numbers = np.full(np.shape(values), np.inf)
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


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
