"""Origins of the columns of x, each checked against the columns of the file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from pipelines.projects.literals import quoted
from pipelines.projects.scripts.script_text import ScriptFault
from pipelines.projects.scripts.source import number

Array = NDArray[Any]
EPSILON = 4 * float(np.finfo(np.float32).eps)  # what float32 loses in a line
LOG_SHIFTS = (0.0, 1.0)
FEWEST_ROWS = 5  # of a text on average, so that a table of texts is no chance
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
LAYERS = (
    *(keras.layers.TextVectorization, keras.layers.StringLookup, keras.layers.IntegerLookup),
    *(keras.layers.Discretization, keras.layers.CategoryEncoding, keras.layers.Hashing),
)
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
    def expression(self) -> str:
        """The expression of its values in the workload's model."""
        return f"inputs[{quoted(self.name)}]"

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


def is_text(values: Array) -> bool:
    """Return whether an array has texts."""
    return values.dtype.kind in "OUS"


def missing(values: Array) -> Array:
    """Return which values of a file's column are missing."""
    return values == "" if is_text(values) else np.isnan(values)


@dataclass(frozen=True)
class Origin:
    """Origin of a column of x: a column of the file, and what the script made of it.

    Attributes:
        made: the expression of its values.
        is_filled: True if missing values have another one.
        table: of texts, the number of each distinct one.
        layer: of the script, whose outputs the column and the next `width` - 1 are.
    """

    column: FileColumn
    made: str = ""
    is_filled: bool = False
    table: tuple[float, ...] = ()
    layer: Any = None
    width: int = 1

    @property
    def is_own(self) -> bool:
        """True if it has the column's own values."""
        return self.made == self.column.expression


def origins_of(
    values: Array, names: Sequence[str], columns: Sequence[FileColumn], layers: Sequence[Any]
) -> list[Origin]:
    """Return the origins of x, [rows, columns], in order.

    Raises:
        ScriptFault: no column of the file has these values, or several have.
    """
    origins: list[Origin] = []
    while (at := sum(origin.width for origin in origins)) < values.shape[1]:
        origin = explain(values[:, at], columns, name=names[at])
        origin = origin or _by_layer(values[:, at:], columns, layers)
        if origin is None:
            raise _refusal(values[:, at], columns, names[at])
        origins.append(origin)
    return origins


def explain(values: Array, columns: Sequence[FileColumn], *, name: str) -> Origin | None:
    """Return the origin of a column of x, None if no column of the file has it.

    Raises:
        ScriptFault: several columns of the file have it, and none its name.
    """
    # get_dummies makes names such as plan_basic.
    named = [c for c in columns if name == c.name or f"{name}_".startswith(f"{c.original}_")]
    named.sort(key=lambda column: -len(column.original))
    for column in named:
        if origin := origin_of(values, column):
            return origin
    origins = [origin for column in columns if (origin := origin_of(values, column))]
    chosen = [origin for origin in origins if origin.is_own] or origins
    if len(chosen) > 1:
        alike = " and ".join(origin.column.original for origin in chosen[:2])
        raise ScriptFault(
            f"{name} of x may be made of {alike} alike: give x as a DataFrame with the columns'"
            " names, or leave one out of the file"
        )
    return chosen[0] if chosen else None


def origin_of(values: Array, column: FileColumn) -> Origin | None:
    """Return the origin of values if they are a column's own, a line or logarithm, or a table."""
    if column.is_text != is_text(values):
        return _table(values, column) if column.is_text else None
    values = np.char.strip(values.astype(str)) if column.is_text else values.astype(float)
    fills, own = np.unique(values[column.is_missing]), column.expression
    if len(fills) > 1 or column.is_missing.all():
        return None
    base, values = column.values[~column.is_missing], values[~column.is_missing]
    readings = [(base, own)]
    for shift in () if column.is_text else LOG_SHIFTS:
        if base.min() + shift > 0:
            readings.append((np.log(base + shift), f"keras.ops.log({own} + {shift})"))
    made = next(filter(None, (_line(values, *reading) for reading in readings)), "")
    if not made or not len(fills) or missing(fills)[0]:
        return Origin(column, made) if made else None
    fill = fills[0].item()
    if column.is_text:
        made = f'keras.ops.where(keras.ops.equal({own}, ""), {quoted(fill)}, {made})'
    else:
        made = f"keras.ops.where(keras.ops.isnan({own}), {number(fill)}, {made})"
    return Origin(column, made, is_filled=True)


def _line(values: Array, base: Array, own: str) -> str:
    """Return values as a straight line of others, exact to float32; "" if they are none."""
    if is_text(base):
        return own if (values == base).all() else ""
    size = np.abs(base).max()
    if np.abs(values - base).max() <= EPSILON * size:
        return own
    low, high = base.argmin(), base.argmax()
    slope = (values[high] - values[low]) / ((base[high] - base[low]) or np.nan)
    if not slope or not np.isfinite(slope):
        return ""
    offset = values[low] - slope * base[low]
    mean, deviation = (float(str(np.float32(end))) for end in (-offset / slope, 1 / slope))
    off = np.abs((base - mean) / deviation - values).max()
    if off > EPSILON * (abs(slope) * size + abs(offset)):
        return ""
    sign = "-" if mean > 0 else "+"
    moved = f"({own} {sign} {number(abs(mean))})" if mean else own
    return moved if deviation == 1 else f"{moved} / {number(deviation)}"


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
    return Origin(column, table=tuple(map(float, table)), is_filled=True) if is_same else None


def _by_layer(values: Array, columns: Sequence[FileColumn], layers: Sequence[Any]) -> Origin | None:
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
                return Origin(column, layer=layer, width=width, is_filled=True)
    return None


def _refusal(values: Array, columns: Sequence[FileColumn], name: str) -> ScriptFault:
    """Return the error about a column of x that no column of the file has."""
    row = max(_first_off(values, column) for column in columns)
    return ScriptFault(
        f"{name} of x is no column of the file, nor a straight line, a logarithm or a table of"
        f" texts of one: the first row that differs from each is row {columns[0].numbers[row]:,} of"
        f" the file, {values[row]!s:.12} in x; {REMEDY}"
    )


def _first_off(values: Array, column: FileColumn) -> int:
    """Return the first row that is off the line through the rows before."""
    if column.is_text or is_text(values):
        return 0
    base, own = column.values, values.astype(float)
    other = (base != base[0]).argmax()
    slope = (own[other] - own[0]) / ((base[other] - base[0]) or np.nan)
    line = own[0] + slope * (base - base[0])
    return int((~(np.abs(line - own) <= EPSILON * np.abs(own).max())).argmax())
