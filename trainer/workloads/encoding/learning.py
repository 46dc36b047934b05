"""Facts that a table learns from its train split: from statistics.json, or from the examples."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainer import Json
from trainer.workloads.base import Features
from trainer.workloads.declarations.features import Category, Feature, Number, Text, Timestamp
from trainer.workloads.declarations.labels import Classes, Label, Multilabel, Regression
from trainer.workloads.encoding.columns import TableFacts
from trainer.workloads.encoding.lookups import (
    Distribution,
    decode_text,
    make_vocabulary,
    split_tokens,
)
from trainer.workloads.encoding.moments import NO_TIME

_LIMITS = (0.01, 0.99)  # the shares of the values below those to which numbers are clipped
_NUM_PIECES = 25  # whole percentiles, which statistics.json has
_FEWEST_VALUES = 500  # with fewer the pieces learn noise


class InsufficientError(LookupError):
    """The source does not have what is to be learnt."""


class StatisticsSource:
    """The train split's `features` in statistics.json."""

    def __init__(self, statistics: Json):
        self._statistics = statistics

    def distribution(self, name: str) -> Distribution:
        """Return the distribution of a number."""
        return Distribution.of_numbers(self._feature(name))

    def moments(self, name: str) -> list[float]:
        """Return mean and standard deviation of a number."""
        feature = self._feature(name)
        return [feature["mean"] or 0.0, feature["std"] or 1.0]

    def counts(self, name: str, most: int | None = None) -> Mapping[Any, int]:
        """Return how often each value occurs, at least of the `most` most frequent ones."""
        feature = self._feature(name)
        size = feature["num_unique"] if most is None else min(feature["num_unique"], most)
        if not feature["is_exact"] or len(feature["top_values"]) < size:
            raise InsufficientError(name)
        return dict(feature["top_values"])

    def tokens(self, name: str) -> Mapping[str, int]:
        """Return how often each token of a text occurs."""
        feature = self._feature(name)
        if "tokens" not in feature:
            raise InsufficientError(name)
        return dict(feature["tokens"])

    def _feature(self, name: str) -> Json:
        if name not in self._statistics:
            raise InsufficientError(name)
        return self._statistics[name]


class ColumnsSource:
    """Raw columns of examples, as `Table.parse` returns them before anything is learnt."""

    def __init__(self, columns: Features):
        self._columns = columns

    def distribution(self, name: str) -> Distribution:
        """Return the distribution of a number."""
        return Distribution.of_column(np.ravel(self._columns[name]))

    def moments(self, name: str) -> list[float]:
        """Return mean and standard deviation of a number."""
        column = self._columns[name]
        if column.dtype.kind == "i":
            column = column[column != NO_TIME]
        return Distribution.of_column(np.ravel(column)).moments()

    def counts(self, name: str, most: int | None = None) -> Mapping[Any, int]:
        """Return how often each value occurs, at least of the `most` most frequent ones."""
        distribution = self.distribution(name)
        terms = [decode_text(term, feature=name) for term in distribution.values]
        return dict(zip(terms, distribution.counts, strict=True))

    def tokens(self, name: str) -> Mapping[str, int]:
        """Return how often each token of a text occurs."""
        texts = self._columns[name].tolist()
        return Counter(
            token for text in texts for token in split_tokens(decode_text(text, feature=name))
        )


Source = StatisticsSource | ColumnsSource


def learn(
    features: Sequence[Feature], label: Label, source: Source, *, has_edges: bool = False
) -> TableFacts:
    """Return the facts of used features and of the label; InsufficientError if some are missing."""
    used = [feature for feature in features if feature.is_used]
    numbers = [feature for feature in used if isinstance(feature, Number)]
    boundaries = {
        number.name: source.distribution(number.name).boundaries(number.buckets)
        for number in numbers
        if number.buckets
    }
    limits = {
        number.name: source.distribution(number.name).quantiles(_LIMITS) or [0.0, 0.0]
        for number in numbers
        if number.is_clipped
    }
    moments = {}
    for number in [number for number in numbers if number.is_scaled]:
        if number.is_logarithmic or number.is_clipped:
            clipped = source.distribution(number.name).clipped(limits.get(number.name))
            moments[number.name] = clipped.moments(is_logarithmic=number.is_logarithmic)
        else:
            moments[number.name] = source.moments(number.name)
    for feature in used:
        if isinstance(feature, Timestamp) and "year" in feature.parts:
            moments[feature.name] = source.moments(feature.name)
    edges = {
        number.name: _edges(number, source.distribution(number.name), limits, moments)
        for number in numbers
        if has_edges and number.is_scaled and not (number.buckets or number.length)
    }
    if isinstance(label, Regression):
        moments[label.column] = source.moments(label.column)
    vocabularies = {feature.name: _vocabulary(feature, source) for feature in used}
    must_learn_classes = isinstance(label, Classes | Multilabel) and not label.values
    return TableFacts(
        boundaries=boundaries,
        vocabularies={name: terms for name, terms in vocabularies.items() if terms is not None},
        moments=moments,
        limits=limits,
        edges=edges,
        classes=tuple(sorted(source.counts(label.column))) if must_learn_classes else (),
    )


def _vocabulary(feature: Feature, source: Source) -> list[str] | None:
    if isinstance(feature, Text):
        counts, most = source.tokens(feature.name), feature.max_tokens
    elif isinstance(feature, Category) and not (
        feature.values or feature.hashed or feature.is_integer
    ):
        counts, most = source.counts(feature.name, feature.max_values), feature.max_values
    else:
        return None
    return make_vocabulary(counts, max_terms=most, min_count=feature.min_count)


def _edges(
    number: Number,
    found: Distribution,
    limits: Mapping[str, list[float]],
    moments: Mapping[str, list[float]],
) -> list[float]:
    """Return the ends of pieces with equally many values, scaled as the number; [] without any."""
    clipped = found.clipped(limits.get(number.name))
    # Percentiles stand for at least a thousand values.
    if not clipped.is_percentiles and clipped.counts.sum() < _FEWEST_VALUES:
        return []
    inner = clipped.boundaries(_NUM_PIECES)
    values = np.array([*clipped.values[:1], *inner, *clipped.values[-1:]], np.float64)
    if number.is_logarithmic:
        values = np.log1p(np.maximum(values, 0))
    mean, deviation = moments[number.name]
    edges = np.unique((values - mean) / deviation)
    return [float(edge) for edge in edges] if len(edges) > 1 else []
