"""A column of a user's table: its values, how they are read, and the guess of its role."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.statistics.numbers import Numbers
from components.prepare_examples.statistics.states import counted_texts
from components.prepare_examples.tables.values.written import numbers_of
from pipelines.projects.literals import SourceText, call
from trainer import Json
from trainer.workloads.declarations.features import Timestamp
from trainer.workloads.declarations.names import normal_form
from trainer.workloads.declarations.written import PLAIN, Written

FEATURE, KEY, GROUP, IGNORED, LABEL = "feature", "key", "group", "ignored", "label"
NUMBER, LIST = "number", "list"
LIST_SEPARATOR = "|"
# Texts that mean a missing value wherever they occur, and those that do so among numbers.
EXCEL = ("#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!")
MISSING = ("?", "\\N", *EXCEL, "N/A", "NULL", "null", "NaN", "nan")
MISSING_NUMBERS = (*MISSING, "NA", "n/a", "k.A.", "None", "none", "-", "--", ".", "unknown")
FEWEST_NUMBERS = 20  # distinct ones, among which another text is a missing value
MOST_ODD = 0.01  # of the values: texts that occur once among others, which are mistakes
MAX_VOCABULARY = 1_000
NINES = re.compile(r"-?9{2,}(\.0*)?")  # -999 and the like, which may mean a missing number
POINT_ZERO = r"\.0*$"  # of whole numbers
FAR = 3  # times the widest gap between other numbers
LISTED = 0.2  # separators for each value of a column of lists, at least

Form = Written | Timestamp


@dataclass(frozen=True)
class Reading:
    """A form in which the texts of a column are read.

    Attributes:
        form: of numbers or times; None if the values are none, or codes such as 007.
        values: numbers, or seconds of times, of the distinct texts; null for other texts.
        markers: the texts that mean a missing value.
        mistakes: other texts that are not read, each with the reason.
    """

    form: Form | None = None
    values: pa.Array = field(default_factory=lambda: pa.nulls(0))
    markers: Sequence[str] = ()
    mistakes: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_odd(self) -> int:
        """The number of texts that are not read."""
        return len(self.markers) + len(self.mistakes)


@dataclass(eq=False)
class TableColumn:
    """A column: first its texts, then their reading, then the guess of its role.

    Attributes:
        name: in the file.
        declared: the name in the declaration, which an input of the model has, too.
        texts: the values without blanks around them, null for an empty one.
        stored: NUMBER or LIST if all values have such a type in a Parquet or JSON file.
        unusable: the type of values that no feature has, or "".
        length: the number of numbers in each list, or 0.
        num_infinite: how many values are infinite.
        has_blanks: there were blanks around values.
        role: FEATURE, KEY, GROUP, IGNORED or LABEL.
        kind: of a feature or label, such as `Number`; else "".
        arguments: of the declaration, after the name.
        seen: the reason of the guess.
        is_said: the guess is unusual enough to be said on the terminal.
    """

    name: str
    declared: str
    texts: pa.Array
    _: KW_ONLY
    stored: str = ""
    unusable: str = ""
    length: int = 0
    num_infinite: int = 0
    has_blanks: bool = False
    reading: Reading = field(default_factory=Reading)
    role: str = ""
    kind: str = ""
    arguments: Json = field(default_factory=dict)
    seen: str = ""
    is_said: bool = False

    def guess(
        self,
        role: str,
        kind: str = "",
        arguments: Json | None = None,
        *,
        seen: str,
        is_said: bool = False,
    ) -> None:
        """Set the guess of the column's role."""
        self.role, self.kind, self.arguments = role, kind, arguments or {}
        self.seen, self.is_said = seen, is_said

    @property
    def declaration(self) -> SourceText:
        """The declaration of the feature or label, with how its texts are read."""
        return call(self.kind, self.declared, **self.arguments, **self.as_read)

    @property
    def as_read(self) -> Json:
        """The arguments of the declaration that say how texts are read."""
        form = self.written if self.kind in ("Number", "Regression") else None
        known = {"written": form.written.replace(PLAIN, ""), "signs": form.signs} if form else {}
        known["missing"] = tuple(self.reading.markers)
        return {name: value for name, value in known.items() if value}

    @property
    def needs_alias(self) -> bool:
        """True if files have another name than the declaration, even in normal form."""
        return self.declared not in (self.name, normal_form(self.name))

    @property
    def written(self) -> Written | None:
        """The form of numbers; None if the values are none."""
        return self.reading.form if isinstance(self.reading.form, Written) else None

    @property
    def time(self) -> Timestamp | None:
        """The format of times; None if the values are none."""
        return self.reading.form if isinstance(self.reading.form, Timestamp) else None

    @cached_property
    def counts(self) -> dict[str, int]:
        """The numbers of rows by their text."""
        return counted_texts(self.texts.drop_null())

    @cached_property
    def values(self) -> pa.Array:
        """The texts; null where the file has none, one for a missing value, or a mistake."""
        odd = pa.array([*self.reading.markers, *self.reading.mistakes], pa.string())
        return pc.if_else(pc.is_in(self.texts, odd), pa.scalar(None, pa.string()), self.texts)

    @cached_property
    def present(self) -> pa.Array:
        """The values that are not missing."""
        return self.values.drop_null()

    @cached_property
    def num_unique(self) -> int:
        """The number of distinct values."""
        return len(self.present.unique())

    @cached_property
    def ranked(self) -> list[str]:
        """The distinct values, the most frequent first."""
        return sorted(self.present.unique().to_pylist(), key=self._rank)

    def _rank(self, text: str) -> tuple[int, str]:
        return -self.counts[text], text

    @cached_property
    def numbers(self) -> pa.Array:
        """The number of each row, float64; null for a missing one, or if the values are none."""
        if self.written is None:
            return pa.nulls(len(self.values), pa.float64())
        return numbers_of(self.values, self.written)

    @cached_property
    def summary(self) -> Json:
        """The statistics of a column of numbers, as in statistics.json."""
        statistic = Numbers("FLOAT")
        statistic.add(self.numbers)
        return statistic.summary()

    @cached_property
    def is_whole(self) -> bool:
        """True if all values are whole numbers."""
        is_whole = pc.all(pc.equal(self.numbers, pc.floor(self.numbers)))
        return self.written is not None and bool(is_whole.as_py())

    @property
    def has_whole_texts(self) -> bool:
        """True if all values are whole numbers, written as a program does."""
        return self.written is not None and self.written.is_plain and self.is_whole

    @cached_property
    def is_list(self) -> bool:
        """True if the values are lists, in texts with LIST_SEPARATOR between few different ones."""
        if self.stored == LIST or self.written:
            return self.stored == LIST
        parts = pc.list_flatten(pc.split_pattern(self.present, LIST_SEPARATOR))
        is_several = len(parts) > (1 + LISTED) * len(self.present)
        return is_several and len(pc.utf8_trim_whitespace(parts).unique()) <= MAX_VOCABULARY

    @cached_property
    def perhaps_missing(self) -> list[str]:
        """The values that may mean a missing one, such as -999 and unknown."""
        if self.written is None:
            marks = {*map(str.casefold, MISSING_NUMBERS)}
            return [text for text in self.ranked[:MAX_VOCABULARY] if text.casefold() in marks]
        read, lowest = self.written.number_of, self.summary["min"]
        is_low = lowest < 0 and self.num_unique >= FEWEST_NUMBERS
        odd = [
            text
            for text, number in self.counts.items()
            if number > 1 and (NINES.fullmatch(text) or (is_low and read(text) == lowest))
        ]
        return [t for t in sorted(odd, key=self._rank) if _is_far(read(t) or 0.0, self.numbers)]


def _is_far(value: float, numbers: pa.Array) -> bool:
    """Return whether a number is below 0, unlike the others, or beyond a gap that they lack."""
    rest = np.unique(numbers.filter(pc.not_equal(numbers, value)).drop_null())
    if not len(rest):
        return False
    gap = max(rest[0] - value, value - rest[-1])
    return bool(value < 0 <= rest[0] or gap > FAR * np.diff(rest).max(initial=0))


def rows_text(number: int) -> str:
    """Return a number of rows in words."""
    return f"{number:,} row{'s' * (number != 1)}"
