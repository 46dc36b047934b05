"""A column of a user's table as texts, and the guess of its role."""

import re
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.statistics.numbers import Numbers
from components.prepare_examples.tables.values.written import numbers_of
from pipelines.projects.literals import Source, call
from pipelines.projects.starter.forms import FEWEST_NUMBERS, MISSING_NUMBERS, Reading
from pipelines.projects.starter.typed_columns import LIST, LIST_SEPARATOR, TypeFacts
from trainer import Json
from trainer.workloads.declarations.names import normal_form
from trainer.workloads.declarations.written import PLAIN, Written

FEATURE, KEY, GROUP, IGNORED = "feature", "key", "group", "ignored"
MAX_VOCABULARY = 1_000
NINES = re.compile(r"-?9{2,}(\.0*)?")  # -999 and the like, which may mean a missing number
FAR = 3  # times the widest gap between other numbers
LISTED = 0.2  # separators for each value of a column of lists, at least


@dataclass(frozen=True)
class Texts:
    """A column, as texts.

    Attributes:
        facts: of the types in a Parquet or JSON file.
        declared: its name in the declaration.
    """

    name: str
    reading: Reading
    facts: TypeFacts = field(default_factory=TypeFacts)
    declared: str = ""

    @property
    def needs_alias(self) -> bool:
        """True if files have another name than the declaration, even in normal form."""
        return self.declared not in (self.name, normal_form(self.name))

    @property
    def values(self) -> pa.Array:
        """The texts; null where the file has none, one for a missing value, or a mistake."""
        return self.reading.values

    def arguments(self, kind: str) -> Json:
        """Return the arguments of a declaration of this kind that say how texts are read."""
        form = self.reading.numbers if kind.title() in ("Number", "Regression") else None
        known = {"written": form.written.replace(PLAIN, ""), "signs": form.signs} if form else {}
        known["missing"] = tuple(self.reading.markers)
        return {name: value for name, value in known.items() if value}

    @cached_property
    def present(self) -> pa.Array:
        """The values that are not missing."""
        return self.values.drop_null()

    @cached_property
    def num_unique(self) -> int:
        """The number of distinct values."""
        return len(self.present.unique())

    @cached_property
    def ranked(self) -> list[tuple[str, int]]:
        """The values with their counts, the most frequent first."""
        return _ranked(self.present.value_counts())

    @cached_property
    def numbers_or_texts(self) -> pa.Array:
        """The values of all rows, null for a missing one: float64 if all are numbers."""
        form = self.reading.numbers
        return self.values if form is None else numbers_of(self.values, form)

    @cached_property
    def numbers(self) -> pa.Array | None:
        """The values that are not missing as float64; None if one is no number."""
        return self.numbers_or_texts.drop_null() if self.reading.numbers else None

    @cached_property
    def per_row(self) -> NDArray[np.float64]:
        """The number of each row; not a number where it is missing."""
        if self.numbers is None:
            return np.full(len(self.values), np.nan)
        return np.asarray(self.numbers_or_texts.fill_null(np.nan))

    @cached_property
    def summary(self) -> Json:
        """The statistics of a column of numbers, as in statistics.json."""
        statistic = Numbers("FLOAT")
        statistic.add(self.numbers)
        return statistic.summary()

    @cached_property
    def is_whole(self) -> bool:
        """True if all values are whole numbers."""
        numbers = self.numbers
        return numbers is not None and bool(pc.all(pc.equal(numbers, pc.floor(numbers))).as_py())

    @property
    def has_whole_texts(self) -> bool:
        """True if all values are whole numbers, written as a program does."""
        form = self.reading.numbers
        return form is not None and form.is_plain and self.is_whole

    @cached_property
    def is_list(self) -> bool:
        """True if the values are lists, in texts with LIST_SEPARATOR between few different ones."""
        if self.facts.kind == LIST or self.numbers is not None:
            return self.facts.kind == LIST
        parts = pc.list_flatten(pc.split_pattern(self.present, LIST_SEPARATOR))
        is_several = len(parts) > (1 + LISTED) * len(self.present)
        return is_several and len(pc.utf8_trim_whitespace(parts).unique()) <= MAX_VOCABULARY

    @cached_property
    def perhaps_missing(self) -> list[str]:
        """The values that may mean a missing one, such as -999 and unknown."""
        if self.numbers is None:
            marks = {*map(str.casefold, MISSING_NUMBERS)}
            return [text for text, _ in self.ranked[:MAX_VOCABULARY] if text.casefold() in marks]
        counted = self.present.value_counts()
        repeated = _ranked(counted.filter(pc.greater(counted.field("counts"), 1)))
        read = (self.reading.numbers or Written()).number_of
        lowest = self.summary["min"] if self.num_unique >= FEWEST_NUMBERS else 0
        texts = [text for text, _ in repeated[:MAX_VOCABULARY]]
        odd = [text for text in texts if NINES.fullmatch(text) or read(text) == lowest < 0]
        return [text for text in odd if _is_far(read(text) or 0.0, self.numbers)]


def _ranked(counted: pa.StructArray) -> list[tuple[str, int]]:
    counts = zip(
        counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True
    )
    return sorted(counts, key=lambda item: (-item[1], item[0]))


def _is_far(value: float, numbers: pa.Array) -> bool:
    """Return whether a number is below 0, unlike the others, or beyond a gap that they lack."""
    rest = np.unique(numbers.filter(pc.not_equal(numbers, value)))
    if not len(rest):
        return False
    gap = max(rest[0] - value, value - rest[-1])
    return bool(value < 0 <= rest[0] or gap > FAR * np.diff(rest).max(initial=0))


@dataclass(frozen=True)
class Guess:
    """Guess of the role of a column.

    Attributes:
        role: FEATURE, KEY, GROUP or IGNORED.
        kind: of a feature, such as `Number`; else "".
        arguments: of the declaration, after the name.
        is_said: the guess is unusual enough to be said on the terminal.
    """

    column: Texts
    role: str
    kind: str = ""
    arguments: Json = field(default_factory=dict)
    seen: str = ""
    is_said: bool = False

    @property
    def name(self) -> str:
        """The name in the declaration, which an input of the model has, too."""
        return self.column.declared

    @property
    def declaration(self) -> Source:
        """The feature's declaration."""
        return call(self.kind, self.name, **self.arguments, **self.column.arguments(self.kind))


def rows_text(number: int) -> str:
    """Return a number of rows in words."""
    return f"{number:,} row{'s' * (number != 1)}"
