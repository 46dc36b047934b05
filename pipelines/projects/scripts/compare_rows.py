"""The rows that reached `fit`, compared with the rows of the file: which column went where."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TOLERANCE = 3e-6  # of the range of a column: what float32 loses
MOST_VALUES = 2_000  # distinct values of a column that is looked up
MOST_CLOSED = 50  # values of a column of numbers or times that may be all there are
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
LOG_SHIFTS = (0.0, 1.0, 1e-3, 1e-6)


@dataclass(frozen=True)
class FileColumn:
    """A column of the file: float64 with NaN, or texts with "" for a missing value."""

    name: str
    values: Array
    original: str = ""

    @property
    def is_text(self) -> bool:
        """True if the values are texts."""
        return self.values.dtype.kind in "OUS"

    @property
    def classes(self) -> list[Any]:
        """The distinct values, sorted."""
        present = self.values[~_missing(self.values)]
        return [*np.unique(present.astype(str) if self.is_text else present).tolist()]


@dataclass(frozen=True)
class Origin:
    """Origin of a recorded column: a column of the file, and what the script made of it.

    The recorded value is `(f(value) - mean) / deviation`, cut to `limits`, where f is the logarithm
    of the value plus `log_shift`, or the value in `table`, or the value itself.

    Attributes:
        fill: the value in place of a missing one; None: rows without a value were dropped, or have
            none.
        table: the number of each value of a column that is looked up.
    """

    column: str
    mean: float = 0.0
    deviation: float = 1.0
    log_shift: float | None = None
    limits: tuple[float, float] | None = None
    fill: Any = None
    table: Mapping[Any, float] = field(default_factory=dict)

    @property
    def is_scaled(self) -> bool:
        """True if the numbers are not the file's own."""
        return (self.mean, self.deviation) != (0.0, 1.0)


def find_rows(
    recorded: Sequence[Array],
    label: Array,
    columns: Sequence[FileColumn],
    target: FileColumn,
    *,
    orders: Sequence[Array] = (),
) -> Array | None:
    """Return the row of the file for each recorded row; None if they have another order.

    `recorded` are the columns that reached `fit`, each [rows], and `label` its label, [rows] or
    one-hot. `orders` are numbers that the rows may have, after a shuffle or of a part of them.
    """
    for rows in possible_rows(len(label), columns, orders):
        if tells_label(label, target, rows) and any(
            len(np.unique(values[:1000])) > 1 and explain(values, columns, rows)
            for values in recorded
        ):
            return rows
    return None


def tells_label(label: Array, target: FileColumn, rows: Array) -> bool:
    """Return whether the file's label decides the recorded one, in these rows."""
    has_classes = label_table(label, target, rows) is not None
    return has_classes or label_origin(label, target, rows) is not None


def label_table(label: Array, target: FileColumn, rows: Array) -> dict[Any, Any] | None:
    """Return the recorded label of each value of the file's label, if they are classes."""
    codes = label.argmax(axis=1) if label.ndim > 1 and label.shape[1] > 1 else label.reshape(-1)
    return _table(target.values[rows], codes)


def label_origin(label: Array, target: FileColumn, rows: Array) -> Origin | None:
    """Return the origin of a label of numbers."""
    if target.is_text or label.dtype.kind in "OUS" or (label.ndim > 1 and label.shape[1] > 1):
        return None
    values = label.reshape(-1).astype(float)
    return _line(values, target, rows) or _logarithm(values, target, rows)


def explain(
    values: Array, columns: Sequence[FileColumn], rows: Array, *, name: str = "", after: str = ""
) -> Origin | None:
    """Return the origin of a recorded column, None if no column of the file explains it.

    `rows` is the row of the file for each recorded row. In doubt the column of the same name is
    preferred, then the column `after`, and the next ones.
    """
    names = [column.name for column in columns]
    first = names.index(after) if after in names else 0
    ordered = [*columns[first:], *columns[:first]]
    ordered.sort(key=lambda column: name not in (column.name, column.original))
    makers = (_same, _line, _logarithm, _lookup)
    for make, column in itertools.product(makers, ordered):
        if origin := make(values, column, rows):
            return origin
    return None


def possible_rows(
    num: int, columns: Sequence[FileColumn], orders: Sequence[Array]
) -> Iterator[Array]:
    """Yield the rows of the file that so many recorded rows may be: in its order, or in others.

    An order numbers all rows, the rows without a missing value, or the rows in another order; the
    recorded rows are its first or its last ones.
    """
    whole = np.flatnonzero(~np.any([_missing(column.values) for column in columns], axis=0))
    bases = [np.arange(len(columns[0].values)), whole]
    known = [order for order in orders if len(order) >= num and order.dtype.kind in "iu"]
    for base, order in itertools.product((*bases, *orders), known):
        if order.max(initial=-1) < len(base):
            yield base[order[:num]]
            yield base[order[len(order) - num :]]
    for base in bases:
        if num <= len(base):
            yield base[:num]
            yield base[len(base) - num :]


def _missing(values: Array) -> Array:
    return values == "" if values.dtype.kind in "OUS" else np.isnan(values)


def _same(values: Array, column: FileColumn, rows: Array) -> Origin | None:
    file = column.values[rows]
    if column.is_text != (values.dtype.kind in "OUS"):
        return None
    missing = _missing(file)
    if column.is_text:
        values = np.char.strip(values.astype(str))
        is_equal = values == np.char.strip(file.astype(str))
    else:
        values = values.astype(float)
        span = np.ptp(file[~missing]) if (~missing).any() else 0.0
        is_equal = np.abs(values - file) <= TOLERANCE * max(
            span, np.abs(file[~missing]).max(initial=0)
        )
    if not is_equal[~missing].all() or not (~missing).any():
        return None
    fills = np.unique(values[missing]) if missing.any() else np.array([])
    fills = fills[~_missing(fills)] if len(fills) else fills
    if len(fills) > 1:
        return None
    fill = fills[0].item() if len(fills) else None
    return Origin(column.name, fill=fill)


def _line(
    values: Array, column: FileColumn, rows: Array, *, shift: float | None = None
) -> Origin | None:
    """Return the origin of a column that is scaled: another offset and unit, perhaps cut."""
    if column.is_text or values.dtype.kind in "OUS":
        return None
    values, file = values.astype(float), column.values[rows]
    if shift is not None:
        file = np.log(file + shift)
    known = np.isfinite(file)
    ends = (values[known].min(initial=np.inf), values[known].max(initial=-np.inf))
    inner = known & (values > ends[0]) & (values < ends[1])
    return _line_of(values, file, known, column, shift) or _line_of(
        values, file, inner, column, shift, limits=ends
    )


def _line_of(
    values: Array,
    file: Array,
    inner: Array,
    column: FileColumn,
    shift: float | None,
    *,
    limits: tuple[float, float] | None = None,
) -> Origin | None:
    """Return the origin whose line leads through the `inner` rows, and is cut beyond the limits."""
    known = np.isfinite(file)
    if len(np.unique(file[inner])) < 2 or len(np.unique(values[inner])) < 2:  # noqa: PLR2004
        return None
    low = np.where(inner, file, np.inf).argmin()
    high = np.where(inner, file, -np.inf).argmax()
    slope = (values[high] - values[low]) / (file[high] - file[low])
    if not slope or not np.isfinite(slope):
        return None
    line = values[low] + slope * (file - file[low])
    cut = np.clip(line, *limits) if limits else line
    span = np.ptp(values[known])
    if not (np.abs(cut - values)[known] <= 10 * TOLERANCE * span).all():
        return None
    fills = np.unique(values[~known])
    if len(fills) > 1 and np.ptp(fills) > TOLERANCE * span:
        return None
    mean, deviation = file[low] - values[low] / slope, 1 / slope
    fill = None
    if len(fills) and np.isfinite(fills[0]):
        plain = fills[0] * deviation + mean
        fill = _rounded(float(plain if shift is None else np.exp(plain) - shift))
    return Origin(
        column.name,
        mean=_rounded(mean, deviation),
        deviation=_rounded(deviation),
        log_shift=shift,
        limits=limits,
        fill=fill,
    )


def _rounded(value: float, unit: float | None = None) -> float:
    """Return a number without the digits that float32 made up; next to 0 it is 0."""
    if abs(value) < TOLERANCE * abs(unit or 1.0) and unit is not None:
        return 0.0
    return float(f"{value:.7g}")


def _logarithm(values: Array, column: FileColumn, rows: Array) -> Origin | None:
    if column.is_text or values.dtype.kind in "OUS":
        return None
    lowest = np.nanmin(column.values)
    shifts = [shift for shift in LOG_SHIFTS if lowest + shift > 0]
    origins = [_line(values, column, rows, shift=shift) for shift in shifts]
    # Large numbers, such as prices, have nearly the same logarithm with each shift.
    return min(filter(None, origins), key=_distance, default=None)


def _distance(origin: Origin) -> float:
    return abs(origin.mean) + abs(origin.deviation - 1)


def _lookup(values: Array, column: FileColumn, rows: Array) -> Origin | None:
    if values.dtype.kind in "OUS":
        return None
    table = _table(column.values[rows], values.astype(float))
    if table is None or len(set(table.values())) < 2 or _is_open(column, table):  # noqa: PLR2004
        return None
    return Origin(column.name, table=table)


def _is_open(column: FileColumn, table: Mapping[Any, float]) -> bool:
    """Return whether new rows have values that a table lacks: it has numbers or times, no codes."""
    codes, counts = np.unique([*table.values()], return_counts=True)
    is_one_hot = len(codes) == 2 and 1 in counts  # noqa: PLR2004
    if len(table) <= MOST_CLOSED or is_one_hot:
        return False
    if column.is_text:
        return all(DATE.match(key) for key in table if key)
    are_whole = not (codes % 1).any()
    return not are_whole or len(codes) < max(len(table), np.ptp(codes) / 2)


def _table(keys: Array, values: Array) -> dict[Any, Any] | None:
    """Return the value of each key, None if a key has several or there are too many keys."""
    if keys.dtype.kind == "f":
        keys = np.where(np.isnan(keys), np.inf, keys)
    unique, first, inverse = np.unique(
        keys.astype(str) if keys.dtype.kind == "O" else keys, return_index=True, return_inverse=True
    )
    if len(unique) > min(MOST_VALUES, len(keys) / 2):
        return None
    chosen = values[first]
    if not (chosen[inverse] == values).all():
        return None
    names = [None if name == np.inf else name for name in unique.tolist()]
    return dict(zip(names, chosen.tolist(), strict=True))
