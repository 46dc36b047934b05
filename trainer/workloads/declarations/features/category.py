"""The feature Category."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from trainer.workloads.declarations.features.base import (
    Feature,
    check_limits,
    check_positive,
    items_of,
)
from trainer.workloads.declarations.features.number import BRACKETS
from trainer.workloads.declarations.features.whole_numbers import (
    category_column,
    format_whole,
    missing_whole,
    num_whole,
    parse_whole,
    plain_whole,
    whole_column,
)
from trainer.workloads.declarations.storage import INT, TEXT
from trainer.workloads.declarations.written import NumberLimits, plain_text
from trainer.workloads.encoding.columns import Column, TableFacts
from trainer.workloads.encoding.lookups import make_vocabulary, number_hashes, number_terms

# More categories than that are a mistake: each has weights of its own.
_MOST_CATEGORIES = 5_000_000


@dataclass(frozen=True)
class Category(Feature, NumberLimits):
    """One of several values; by default texts, whose vocabulary is learnt from the train split.

    Texts are stored as bytes; whole numbers from `low` to `high` as int64.

    Attributes:
        values: the vocabulary; default: the most frequent values of the train split. Any other
            value is unknown.
        max_values: size of a vocabulary from the train split, at most.
        min_count: how often a value of such a vocabulary occurs at least.
        low, high: for whole numbers; rows with others are quarantined.
        unit: for messages.
        hashed: hash texts to this many categories, instead of a vocabulary.
        separator: what separates the values of a list in a text column; "" for single values.
        max_length: the values of a list that the model gets; further ones are left out.
    """

    _: KW_ONLY
    values: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    unit: str = ""
    hashed: int = 0
    max_values: int = 1000
    min_count: int = 5
    separator: str = ""
    max_length: int = 20

    @property
    def is_integer(self) -> bool:
        """True if the values are whole numbers."""
        return self.low is not None

    @property
    def storage(self) -> str:
        return INT if self.is_integer else TEXT

    @property
    def list_length(self) -> int:
        """The length of a list, padded with missing values; 0 for a single value."""
        return self.max_length if self.separator else 0

    @property
    def missing_value(self) -> Any:
        return missing_whole(self) if self.is_integer else b""

    @property
    def num_listed(self) -> int:
        return self.max_values

    def check(self, features: Sequence[Feature]) -> None:
        super().check(features)
        check_limits(self)
        if (self.low is None) != (self.high is None):
            raise ValueError(f"{self.name}: whole numbers need both low and high, or neither")
        kinds = {
            "values": bool(self.values),
            "hashed": bool(self.hashed),
            "low and high": self.is_integer,
        }
        declared = [kind for kind, is_given in kinds.items() if is_given]
        if len(declared) > 1:
            raise ValueError(
                f"{self.name}: {' and '.join(declared)} cannot both be given; leave one out"
            )
        if isinstance(self.values, str) or not all(isinstance(text, str) for text in self.values):
            raise ValueError(
                f"{self.name}: values is {self.values!r:.60}; it must be a tuple of texts"
            )
        check_positive(self, "max_values")
        size = next(iter(self.most_categories().values()), 0)
        if self.is_used and size > _MOST_CATEGORIES:
            raise ValueError(
                f"{self.name}: it has {size:,} categories; at most {_MOST_CATEGORIES:,} are"
                " allowed: use hashed=10_000, or a Number"
            )

    def most_categories(self) -> dict[str, int]:
        if self.separator:
            return {}
        if self.is_integer:
            return {self.name: num_whole(self)}
        return {self.name: self.hashed or len(self.values) or self.max_values}

    def columns(self, facts: TableFacts) -> list[Column]:
        if self.is_integer:
            return [whole_column(self)]
        if self.hashed:
            shared = {"num_hashes": self.hashed}
            return [category_column(self, self.hashed, number_hashes, shared=shared)]
        terms = [*map(plain_text, self.values)] or [*facts.vocabularies.get(self.name, [])]
        return [category_column(self, len(terms), number_terms, vectors={"vocabularies": terms})]

    def learn(self, source: Any, *, has_edges: bool) -> dict[str, Any]:
        if self.values or self.hashed or self.is_integer:
            return {}
        counts = source.counts(self.name, self.max_values)
        terms = make_vocabulary(counts, max_terms=self.max_values, min_count=self.min_count)
        return {"vocabularies": terms}

    def parse_one(self, value: Any) -> np.ndarray:
        if self.is_integer:
            return parse_whole(self, value)
        return super().parse_one(str(value) if isinstance(value, int) else value)

    def parse_list(self, value: Any) -> np.ndarray:
        if value is None or self.is_marker(value):
            value = []
        if isinstance(value, str) and self.is_integer:
            value = value.strip(BRACKETS)
        missing = self.parse_one(None)
        rows = [self.parse_one(item) for item in items_of(self, value)]
        rows = [row for row in rows if row != missing][: self.max_length]
        return np.stack([*rows, *[missing] * (self.max_length - len(rows))])

    def plain_column(self, values: list[Any]) -> np.ndarray | None:
        return plain_whole(self, values) if self.is_integer else super().plain_column(values)

    def plain_spellings(self, terms: Sequence[str]) -> dict[str, str]:
        return super().plain_spellings([*map(plain_text, self.values), *terms])

    def as_item(self, value: Any) -> Any:
        return format_whole(self, value) if self.is_integer else super().as_item(value)
