"""The columns of x, each checked against the columns of the file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.projects.scripts.script_text import ScriptFault

Array = NDArray[Any]
EPSILON = 4 * float(np.finfo(np.float32).eps)  # what float32 loses in a line
LOG_SHIFTS = (None, 0.0, 1.0)  # None: no logarithm
FEWEST_ROWS = 5  # of a text on average, so that a table of texts is no chance
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
REMEDY = (
    "give x the column itself and have the model compute the rest: bins by"
    " keras.layers.Discretization, another function by keras.layers.Lambda of keras.ops, tokens or"
    " TF-IDF by keras.layers.TextVectorization, codes of whole numbers by"
    " keras.layers.IntegerLookup; or write it into the file as a column. If no column"
    " fits, rows are not those of x in its order, as after reset_index"
)


@dataclass(frozen=True, eq=False)
class FileColumn:
    """A column of the file in the rows of x: float64 with NaN, or texts with "".

    Attributes:
        numbers: of the rows in the file, from 1.
        num_missing: in the whole file.
    """

    name: str
    original: str
    values: Array
    numbers: Array
    num_missing: int = 0

    @property
    def is_text(self) -> bool:
        """True if the values are texts."""
        return is_text(self.values)

    @cached_property
    def is_missing(self) -> Array:
        """True for each row without a value."""
        return missing(self.values)

    @cached_property
    def distinct(self) -> tuple[Array, Array, Array]:
        """The distinct values, a row of each, and the number of the value of each row."""
        return np.unique(self.values, return_index=True, return_inverse=True)

    def row_text(self, row: int) -> str:
        """Return a row and its value in words."""
        return f"row {self.numbers[row]:,} of the file, {self.original} {self.values[row]!s:.40}"


def is_text(values: Array) -> bool:
    """Return whether an array has texts."""
    return values.dtype.kind in "OUS"


def missing(values: Array) -> Array:
    """Return which values of a file's column are missing."""
    return values == "" if is_text(values) else np.isnan(values)


@dataclass(frozen=True)
class Origin:
    """Origin of a column of x: a column of the file, and what the script made of it.

    It is `(f(value) - mean) / deviation`, where f is the logarithm of the value plus `log_shift`,
    or the value itself; or of texts the number in `table` of each distinct one.

    Attributes:
        fill: the value in x in place of a missing one; None if there is none.
        layer: of the script, whose outputs the column and the next `width` - 1 are.
    """

    column: FileColumn
    mean: float = 0.0
    deviation: float = 1.0
    log_shift: float | None = None
    fill: Any = None
    table: tuple[float, ...] = ()
    layer: Any = None
    width: int = 1

    @property
    def is_own(self) -> bool:
        """True if it has the column's own values."""
        is_plain = (self.mean, self.deviation, self.log_shift) == (0.0, 1.0, None)
        return is_plain and not self.table

    @property
    def hot(self) -> int | None:
        """The number of the text that is 1 while all others are 0, None if there is none."""
        is_hot = sorted(self.table) == [0.0] * (len(self.table) - 1) + [1.0]
        return self.table.index(1) if is_hot else None


def explain(
    values: Array, columns: Sequence[FileColumn], *, name: str, previous: FileColumn | None
) -> Origin | None:
    """Return the origin of a column of x, None if no column of the file has it.

    Raises:
        ScriptFault: several columns of the file have it, and none its name.
    """
    # get_dummies makes names such as plan_basic.
    named = [c for c in columns if name == c.name or f"{name}_".startswith(f"{c.original}_")]
    named.sort(key=lambda column: -len(column.original))
    # An array has columns of numbers in the order of the file, of which some may be alike.
    following = columns[columns.index(previous) + 1 :][:1] if previous else ()
    for column in (*named, *(c for c in following if not c.is_text)):
        if origin := origin_of(values, column):
            return origin
    origins = [origin for column in columns if (origin := origin_of(values, column))]
    likely = [o for o in origins if o.is_own] or [o for o in origins if o.column is previous]
    chosen = likely or origins
    if len(chosen) > 1:
        names = " and ".join(origin.column.original for origin in chosen[:2])
        raise ScriptFault(
            f"{name} of x may be made of {names} alike: give x as a DataFrame with the columns'"
            " names, or leave one out of the file"
        )
    return chosen[0] if chosen else None


def origin_of(values: Array, column: FileColumn) -> Origin | None:
    """Return the origin of values if they are a column's own, a line or logarithm, or a table."""
    if column.is_text and not is_text(values):
        return _table(values, column)
    if column.is_text != is_text(values):
        return None
    values = np.char.strip(values.astype(str)) if column.is_text else values.astype(float)
    fills = np.unique(values[column.is_missing])
    if len(fills) > 1 or column.is_missing.all():
        return None
    fill = None if not len(fills) or missing(fills)[0] else fills[0].item()
    if column.is_text:
        is_own = (values == column.values)[~column.is_missing].all()
        return Origin(column, fill=fill) if is_own else None
    for shift in LOG_SHIFTS:
        if line := _line(values, column, shift):
            return Origin(column, *line, log_shift=shift, fill=fill)
    return None


def _line(values: Array, column: FileColumn, shift: float | None) -> tuple[float, float] | None:
    """Return mean and deviation if values are a straight line of a column, or its logarithm."""
    base, values = column.values[~column.is_missing], values[~column.is_missing]
    if shift is not None and base.min() + shift <= 0:
        return None
    base = base if shift is None else np.log(base + shift)
    size = np.abs(base).max()
    if np.abs(values - base).max() <= EPSILON * size:
        return 0.0, 1.0
    low, high = base.argmin(), base.argmax()
    slope = (values[high] - values[low]) / ((base[high] - base[low]) or np.nan)
    if not slope or not np.isfinite(slope):
        return None
    offset = values[low] - slope * base[low]
    most = EPSILON * (abs(slope) * size + abs(offset))
    for digits in range(2, 17):  # as few as are exact to float32
        mean, deviation = (float(f"{end:.{digits}g}") for end in (-offset / slope, 1 / slope))
        if np.abs((base - mean) / deviation - values).max() <= most:
            return mean, deviation
    return None


def _table(values: Array, column: FileColumn) -> Origin | None:
    texts, first, codes = column.distinct
    table = values[first].tolist()
    num_rows, num_numbers = len(values), len(set(table))
    is_chance = FEWEST_ROWS * len(texts) > num_rows
    is_code = num_numbers == len(texts) <= num_rows / 2
    has_dates = all(DATE.match(text) for text in texts if text)
    if num_numbers < 2 or has_dates or (is_chance and not is_code):  # noqa: PLR2004
        return None
    is_same = (values[first][codes] == values).all()
    return Origin(column, table=tuple(map(float, table))) if is_same else None


def origin_by_layer(
    values: Array, columns: Sequence[FileColumn], layers: Sequence[Any]
) -> Origin | None:
    """Return the origin of the first of [rows, columns] if they are the outputs of a layer."""
    for layer in layers:
        for column in columns:
            kind = str if column.is_text else np.float32
            try:
                made = np.asarray(layer(column.values.astype(kind)[:, np.newaxis]))
            except Exception:  # a layer of other values, whatever it raises
                continue
            made = made.reshape(len(values), -1)
            width = made.shape[1]
            if width <= values.shape[1] and np.allclose(made, values[:, :width], atol=1e-5):
                return Origin(column, layer=layer, width=width)
    return None


def refusal(values: Array, columns: Sequence[FileColumn], name: str) -> ScriptFault:
    """Return the error about a column of x that no column of the file has."""
    nearest = max(columns, key=lambda column: _correlation(values, column))
    row, where = 0, ""
    if _correlation(values, nearest):
        base, own = nearest.values, values.astype(float)
        next_row = int((base != base[0]).argmax())
        line = own[0] + (own[next_row] - own[0]) / (base[next_row] - base[0]) * (base - base[0])
        row = int((np.abs(line - own) > EPSILON * np.abs(line).max()).argmax())
        where = f", where the line through the rows before has {line[row]:.6g}"
    return ScriptFault(
        f"{name} of x is no column of the file, nor a straight line, a logarithm or a table of"
        f" texts of one: {nearest.row_text(row)}, is {values[row]!s:.12} in x{where}; {REMEDY}"
    )


def _correlation(values: Array, column: FileColumn) -> float:
    if column.is_text or is_text(values) or column.is_missing.any():
        return 0.0
    if not np.ptp(values) or not np.ptp(column.values):
        return 0.0
    return abs(float(np.corrcoef(column.values, values.astype(float))[0, 1]))
