"""Chicago taxi trips: predict whether the tip is more than a fifth of the fare."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trainer.json_types import Json
from trainer.workloads.base import Features, Recipe, Workload, check_fields
from trainer.workloads.crosses import parse_crosses, parse_sizes
from trainer.workloads.data_sets import TAXI
from trainer.workloads.labels import Binary
from trainer.workloads.lookups import (
    Distribution,
    bucketize,
    log_moments,
    make_boundaries,
    make_vocabulary,
    num_categories,
    number_combinations,
    number_integers,
    number_terms,
)
from trainer.workloads.taxi_table import FLOATS, INTS, LABEL, LIMITS, STRINGS
from trainer.workloads.wide_and_deep import build_wide_and_deep, linear_variables

AMOUNTS = ("trip_miles", "fare", "trip_seconds")
COORDINATES = tuple(name for name in FLOATS if name not in AMOUNTS)
NUMBERS = (*AMOUNTS, *COORDINATES)
_UNUSED = ("trip_start_timestamp", "pickup_census_tract", "dropoff_census_tract")
RANGES = {name: (LIMITS[name].low, LIMITS[name].high) for name in INTS if name not in _UNUSED}
TEXTS = STRINGS
FEATURES = (*NUMBERS, *RANGES, *TEXTS)
CROSSES = (
    ("pickup_community_area", "dropoff_community_area"),
    ("trip_start_day", "trip_start_hour"),
    ("payment_type", "fare"),
    ("payment_type", "company"),
    ("payment_type", "trip_start_month"),
)
_NUM_BUCKETS = {**dict.fromkeys(AMOUNTS, 20), **dict.fromkeys(COORDINATES, 10)}
_MAX_TERMS, _MIN_COUNT = 1000, 5
_MODEL_OPTIONS = ("hidden_units", "crosses", "embedding_size", "batch_norm")


@dataclass(frozen=True, kw_only=True)
class Taxi(Workload):
    """Wide and deep: a linear model of categories and crosses, plus a net of embeddings."""

    boundaries: dict[str, list[float]] = field(default_factory=dict)
    vocabularies: dict[str, list[str]] = field(default_factory=dict)
    moments: dict[str, list[float]] = field(default_factory=dict)
    """Mean and standard deviation of log(1 + amount)."""
    hidden_units: tuple[int, ...] = (64, 32)
    crosses: tuple[tuple[str, ...], ...] = CROSSES
    embedding_size: int = 8
    batch_norm: bool = False

    name = "taxi"
    source = TAXI
    label = Binary(LABEL, names=("small tip", "big tip"))
    recipes = {  # noqa: RUF012
        "wide_and_deep": Recipe(learning_rate=2e-3, weight_decay=2.0, average_decay=0.99)
    }
    options = (*_MODEL_OPTIONS, "linear_optimizer", "linear_learning_rate")

    def with_options(self, options: Mapping[str, Any]) -> "Taxi":
        """Return the workload with settings of its model; ValueError names an invalid one."""
        given = dict(options)
        if "hidden_units" in given:
            given["hidden_units"] = parse_sizes(given["hidden_units"])
        if "crosses" in given:
            most = self._most_categories()
            given["crosses"] = parse_crosses(given["crosses"], most)
        return replace(self, **given)

    def changed_options(self) -> dict[str, Any]:
        """Return the model's settings that differ from the defaults, for JSON."""
        texts = {
            "hidden_units": ",".join(map(str, self.hidden_units)),
            "crosses": ",".join(map(":".join, self.crosses)) or "none",
        }
        changed = [name for name in _MODEL_OPTIONS if getattr(self, name) != getattr(Taxi, name)]
        return {name: texts.get(name, getattr(self, name)) for name in changed}

    def parse(self, serialized: Any) -> tuple[Features, Any]:
        """Return columns by name; missing values are NaN, -1 or an empty text."""
        import tensorflow as tf

        spec = {
            **{name: tf.io.FixedLenFeature([], tf.float32, np.nan) for name in NUMBERS},
            **{name: tf.io.FixedLenFeature([], tf.int64, -1) for name in (*RANGES, LABEL)},
            **{name: tf.io.FixedLenFeature([], tf.string, "") for name in TEXTS},
        }
        features = tf.io.parse_example(serialized, spec)
        return features, features.pop(LABEL)

    def adapt(self, features: Features) -> "Taxi":
        """Return the workload with buckets, vocabularies and moments of these examples."""
        found = {name: Distribution.of_column(features[name]) for name in (*NUMBERS, *TEXTS)}
        texts = {name: [term.decode() for term in found[name].values] for name in TEXTS}
        counts = {name: dict(zip(texts[name], found[name].counts, strict=True)) for name in TEXTS}
        return self._with_distributions(found, counts)

    def adapt_to_statistics(self, statistics: Json) -> "Taxi | None":
        """Return the workload adapted to the train split; None if counts of texts are missing.

        Boundaries and vocabularies equal those of `adapt`. Moments differ by float32 rounding, and
        by some percent where a column has more distinct values than statistics.json lists.
        """
        for name in TEXTS:
            found = statistics[name]
            if not found["is_exact"] or len(found["top_values"]) < min(
                found["num_unique"], _MAX_TERMS
            ):
                return None
        return self._with_distributions(
            {name: Distribution.of_numbers(statistics[name]) for name in NUMBERS},
            {name: dict(statistics[name]["top_values"]) for name in TEXTS},
        )

    def _with_distributions(
        self, numbers: Mapping[str, Distribution], texts: Mapping[str, Mapping[str, int]]
    ) -> "Taxi":
        return replace(
            self,
            boundaries={
                name: make_boundaries(numbers[name], _NUM_BUCKETS[name]) for name in NUMBERS
            },
            vocabularies={
                name: make_vocabulary(texts[name], max_terms=_MAX_TERMS, min_count=_MIN_COUNT)
                for name in TEXTS
            },
            moments={name: log_moments(numbers[name]) for name in AMOUNTS},
        )

    def facts(self) -> dict[str, Any]:
        """Return the results of `adapt`, for JSON."""
        return {
            "boundaries": self.boundaries,
            "vocabularies": self.vocabularies,
            "moments": self.moments,
        }

    def with_facts(self, facts: dict[str, Any]) -> "Taxi":
        """Return the workload with the results of an earlier `adapt`."""
        return replace(self, **facts)

    def encode(self, features: Features) -> Features:
        """Return category numbers, their crosses, and standardised amounts."""
        import tensorflow as tf

        categories = self._number_categories(features)
        sizes = self._sizes()
        amounts = [self._scale(features[name], name) for name in AMOUNTS]
        encoded = {
            "categories": _stack_with_offsets(
                list(categories.values()), [sizes[name] for name in categories]
            ),
            "amounts": tf.stack(amounts, axis=1),
        }
        if self.crosses:
            crosses = [number_combinations(cross, categories, sizes) for cross in self.crosses]
            encoded["pairs"] = _stack_with_offsets(crosses, self._cross_sizes())
        return encoded

    def preprocess(self, features: Features) -> Any:
        """Return the encoded features unchanged."""
        return features

    def build_model(self, model: str = "") -> Any:
        """Return a linear model of all categories and crosses, plus a net of embeddings."""
        del model
        return build_wide_and_deep(
            category_sizes=list(self._sizes().values()),
            cross_sizes=self._cross_sizes(),
            num_amounts=len(AMOUNTS),
            num_labels=len(self.labels),
            hidden_units=self.hidden_units,
            embedding_size=self.embedding_size,
            batch_norm=self.batch_norm,
        )

    def linear_variables(self, model: Any) -> list[Any]:
        """Return the variables of the linear part of a model from `build_model`."""
        return linear_variables(model)

    def input_specs(self) -> dict[str, Any]:
        """Return one column for each feature."""
        import tensorflow as tf

        kinds = {
            **dict.fromkeys(NUMBERS, tf.float32),
            **dict.fromkeys(RANGES, tf.int64),
            **dict.fromkeys(TEXTS, tf.string),
        }
        return {name: tf.TensorSpec([None], kind, name=name) for name, kind in kinds.items()}

    def parse_instance(self, instance: Any) -> Features:
        """Return the features of an object; an absent or null feature is missing."""
        check_fields(instance, FEATURES)
        return {name: _parse_value(name, instance.get(name)) for name in FEATURES}

    def format_instance(self, features: Features) -> Any:
        """Return the features that are not missing, by name."""
        return {
            **{name: float(features[name]) for name in NUMBERS if np.isfinite(features[name])},
            **{name: int(features[name]) for name in RANGES if features[name] != -1},
            **{name: features[name].decode() for name in TEXTS if features[name]},
        }

    def wire_forms(self, features: Features) -> dict[str, Any]:
        """Return the features without the missing ones, and with null for them."""
        known = self.format_instance(features)
        return {"object": known, "nulls": {**dict.fromkeys(FEATURES), **known}}

    def _number_categories(self, features: Features) -> Features:
        return {
            **{name: bucketize(features[name], self.boundaries[name]) for name in NUMBERS},
            **{
                name: number_integers(features[name], low=low, high=high)
                for name, (low, high) in RANGES.items()
            },
            **{name: number_terms(features[name], self.vocabularies[name]) for name in TEXTS},
        }

    def _sizes(self) -> dict[str, int]:
        sizes = {
            **{name: len(self.boundaries[name]) + 1 for name in NUMBERS},
            **{name: high - low + 1 for name, (low, high) in RANGES.items()},
            **{name: len(self.vocabularies[name]) for name in TEXTS},
        }
        return {name: num_categories(size) for name, size in sizes.items()}

    def _cross_sizes(self) -> list[int]:
        sizes = self._sizes()
        return [math.prod(sizes[name] for name in cross) for cross in self.crosses]

    @staticmethod
    def _most_categories() -> dict[str, int]:
        """Return the maximum number of categories of each column, for any examples."""
        most = {
            **_NUM_BUCKETS,
            **{name: high - low + 1 for name, (low, high) in RANGES.items()},
            **dict.fromkeys(TEXTS, _MAX_TERMS),
        }
        return {name: num_categories(size) for name, size in most.items()}

    def _scale(self, values: Any, name: str) -> Any:
        import tensorflow as tf

        mean, deviation = self.moments[name]
        scaled = (tf.math.log1p(tf.maximum(values, 0.0)) - mean) / deviation
        return tf.where(tf.math.is_finite(scaled), scaled, 0.0)


def _stack_with_offsets(columns: list[Any], sizes: list[int]) -> Any:
    """Return [examples, columns], the columns' numbers offset to disjoint ranges."""
    import tensorflow as tf

    offsets = np.cumsum([0, *sizes[:-1]]).astype(np.int32)
    return tf.stack(columns, axis=1) + offsets


def _parse_value(name: str, value: Any) -> np.ndarray:
    if name in TEXTS:
        if not isinstance(value, str | None):
            raise ValueError(f"{name} is {value!r}; it must be a text")
        return np.asarray((value or "").encode())
    if value is None:
        return np.asarray(-1, np.int64) if name in RANGES else np.asarray(np.nan, np.float32)
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise ValueError(f"{name} is {value!r}; it must be a number")
    if name in NUMBERS:
        return np.asarray(value, np.float32)
    low, high = RANGES[name]
    if value != int(value) or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from {low} to {high}")
    return np.asarray(value, np.int64)


workload = Taxi()
