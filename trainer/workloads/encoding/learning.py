"""Sources of what a table learns from its train split: statistics.json, or the examples."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainer import Json
from trainer.workloads.encoding.lookups import Distribution, decode_text, split_tokens
from trainer.workloads.encoding.moments import NO_TIME


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

    def __init__(self, columns: Mapping[str, np.ndarray]):
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
