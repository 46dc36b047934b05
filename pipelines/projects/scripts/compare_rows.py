"""The rows that reached `fit`, compared with the rows of the file: which column went where."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TOLERANCE = 3e-6  # of the range of a column: what float32 loses
MOST_VALUES = 2_000  # distinct values of a column that is looked up
ENDS = 12  # values at the ends of a column that may be the first of a part of its rows
LOG_SHIFTS = (0.0, 1.0, 1e-3, 1e-6)
ENOUGH = 0.98  # of the rows must be rows of the file
FEWEST = 0.3  # of the rows must be unlike all others


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
        column: its declared name.
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
    numbers: Sequence[Array | None] = (),
) -> Array | None:
    """Return the row of the file for each recorded row, -1 for one that is unknown; or None.

    Args:
        recorded: the columns that reached `fit`, each [rows].
        label: what `fit` got as the label, [rows] or one-hot.
        columns: of the file.
        target: the file's label.
        numbers: that the rows may have, as pandas and scikit-learn number them.
    """
    for rows in _orders(len(label), columns, numbers):
        if tells_label(label, target, rows) and any(
            _is_same_order(one, columns, rows) for one in recorded
        ):
            return rows
    matched = _find_by_values(recorded, columns)
    if matched is None or (matched >= 0).mean() < FEWEST:
        return None
    return matched if tells_label(label, target, matched) else None


def tells_label(label: Array, target: FileColumn, rows: Array) -> bool:
    """Return whether the file's label decides the recorded one, in these rows."""
    has_classes = label_table(label, target, rows) is not None
    return has_classes or label_origin(label, target, rows) is not None


def label_table(label: Array, target: FileColumn, rows: Array) -> dict[Any, Any] | None:
    """Return the recorded label of each value of the file's label, if they are classes."""
    known = rows >= 0
    codes = label.argmax(axis=1) if label.ndim > 1 and label.shape[1] > 1 else label.reshape(-1)
    return _table(target.values[rows[known]], codes[known])


def label_origin(label: Array, target: FileColumn, rows: Array) -> Origin | None:
    """Return the origin of a label of numbers."""
    if target.is_text or label.dtype.kind in "OUS" or (label.ndim > 1 and label.shape[1] > 1):
        return None
    known = rows >= 0
    values = label.reshape(-1)[known].astype(float)
    return _line(values, target, rows[known]) or _logarithm(values, target, rows[known])


def explain(
    values: Array, columns: Sequence[FileColumn], rows: Array, *, name: str = "", after: str = ""
) -> Origin | None:
    """Return the origin of a recorded column, None if no column of the file explains it.

    Args:
        values: the recorded column.
        columns: of the file.
        rows: the row of the file for each recorded row, -1 if unknown.
        name: of the recorded column, if it has one.
        after: the column of the last one, which is preferred in doubt, and then the next ones.
    """
    known = rows >= 0
    names = [one.name for one in columns]
    first = names.index(after) if after in names else 0
    ordered = [*columns[first:], *columns[:first]]
    ordered.sort(key=lambda one: name not in (one.name, one.original))
    makers = (_same, _line, _logarithm, _lookup)
    for make, column in itertools.product(makers, ordered):
        if found := make(values[known], column, rows[known]):
            return found if found.limits else _with_limits(found, values, column)
    return None


def _with_limits(origin: Origin, values: Array, column: FileColumn) -> Origin:
    """Return an origin with the limits of recorded values beyond which rows are unknown."""
    if origin.table or column.is_text:
        return origin
    file = column.values[~np.isnan(column.values)]
    shift = origin.log_shift
    line = ((file if shift is None else np.log(file + shift)) - origin.mean) / origin.deviation
    line, values = np.sort(line), values.astype(float)
    ends = np.array([values.min(), values.max()])
    counts = np.array([(values == end).sum() for end in ends])
    tolerance = 10 * TOLERANCE * np.ptp(values)
    most = np.array([(np.abs(line - end) <= tolerance).sum() for end in ends])
    is_inside = np.array([ends[0] > line[0] + tolerance, ends[1] < line[-1] - tolerance])
    is_cut = is_inside & (counts > most) & np.isclose(ends, np.round(ends, 2), atol=tolerance)
    if not is_cut.any():
        return origin
    low, high = np.where(is_cut, ends, [-np.inf, np.inf]).tolist()
    return replace(origin, limits=(low, high))


def _orders(
    num: int, columns: Sequence[FileColumn], numbers: Sequence[Array | None]
) -> Iterator[Array]:
    """Yield what the rows' places in the file may be: numbers of all rows, or of whole ones."""
    size = len(columns[0].values)
    whole = np.flatnonzero(~np.any([_missing(one.values) for one in columns], axis=0))
    for rows in (np.arange(size), whole):
        for part in numbers:
            if part is None or part.dtype.kind not in "iu" or len(part) < num:
                continue
            if part[:num].max() < len(rows):
                yield rows[part[:num]]
    for rows in (np.arange(size), whole):
        if num <= len(rows):
            yield rows[:num]
            yield rows[len(rows) - num :]


def _is_same_order(values: Array, columns: Sequence[FileColumn], rows: Array) -> bool:
    return len(np.unique(values[:1000])) > 1 and explain(values, columns, rows) is not None


def _missing(values: Array) -> Array:
    return values == "" if values.dtype.kind in "OUS" else np.isnan(values)


def _same(values: Array, column: FileColumn, rows: Array) -> Origin | None:
    """Return the origin of a column that has the file's own values."""
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
    found = (_line(values, column, rows, shift=shift) for shift in shifts)
    return next(filter(None, found), None)


def _lookup(values: Array, column: FileColumn, rows: Array) -> Origin | None:
    """Return the origin of a column with a number for each value: codes, or 0 and 1 for one."""
    if values.dtype.kind in "OUS":
        return None
    table = _table(column.values[rows], values.astype(float))
    if table is None or len(set(table.values())) < 2:  # noqa: PLR2004
        return None
    return Origin(column.name, table=table)


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


def _find_by_values(recorded: Sequence[Array], columns: Sequence[FileColumn]) -> Array | None:
    """Return the row of the file for each recorded row, by the values that are unlike others."""
    size, used = len(columns[0].values), set[str]()
    pairs: list[tuple[Array, tuple[Array, Array]]] = []
    rows = np.array([])
    for values, column in itertools.product(recorded, columns):
        if column.name in used or any(values is one for one, _ in pairs):
            continue
        is_text = values.dtype.kind in "OUS"
        if is_text and not column.is_text:
            continue
        pair = _text_codes(values, column) if is_text else _number_codes(values, column)
        if pair is None:
            continue
        matched = _match([*(codes for _, codes in pairs), pair], size)
        if matched is not None:
            pairs.append((values, pair))
            used.add(column.name)
            rows = matched
            if (rows >= 0).mean() >= ENOUGH:
                break
    return rows if len(rows) else None


def _text_codes(values: Array, column: FileColumn) -> tuple[Array, Array] | None:
    file = np.char.strip(column.values.astype(str))
    own = np.char.strip(values.astype(str))
    names, codes = np.unique(np.concatenate([file, own]), return_inverse=True)
    counts = [
        np.bincount(part, minlength=len(names)) for part in (codes[: len(file)], codes[len(file) :])
    ]
    excess = np.maximum(counts[1] - counts[0], 0)
    is_likely = not excess.any() or ((excess > 0).sum() == 1 and excess.sum() <= (file == "").sum())
    return (codes[len(file) :], codes[: len(file)]) if is_likely else None


def _number_codes(values: Array, column: FileColumn) -> tuple[Array, Array] | None:
    """Return a code for each value, recorded and of the file; -1 for one that is not explained.

    A line must lead from one to another, also from the logarithms, or the recorded values number
    the others, in their order or as they first occur. The ends may be where the script cut them,
    and one value may be in place of missing ones.
    """
    missing = _missing(column.values)
    own, positions, own_counts = np.unique(
        values.astype(float), return_inverse=True, return_counts=True
    )
    names, first, places, file_counts = np.unique(
        column.values[~missing].astype(str) if column.is_text else column.values[~missing],
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    if not 2 <= len(own) <= len(names) + 1:  # noqa: PLR2004
        return None
    numbered = [np.arange(float(len(names))), first.argsort().argsort().astype(float)]
    forms = numbered if column.is_text else [names, *_logarithms(names), *numbered]
    fits = [
        fit
        for form in forms
        for slope, offset in _lines(own, own_counts, form, file_counts)
        if (fit := _fit(own, own_counts, slope * form + offset, file_counts, int(missing.sum())))
    ]
    if not fits:
        return None
    codes = min(fits, key=lambda fit: fit.distance).codes
    file_codes = np.full(len(missing), len(names))
    file_codes[~missing] = places
    return codes[positions], file_codes


def _logarithms(values: Array) -> list[Array]:
    return [np.log(values + shift) for shift in LOG_SHIFTS if values[0] + shift > 0]


@dataclass(frozen=True)
class _Fit:
    """A line from the file's values to the recorded ones, as the code of each recorded value."""

    codes: Array
    distance: float


def _fit(
    own: Array, own_counts: Array, file: Array, file_counts: Array, num_missing: int
) -> _Fit | None:
    """Return how recorded values are those of the file, None if too many are not."""
    order = file.argsort()
    file, file_counts = file[order], file_counts[order]
    sample = own[:: max(len(own) // 40, 1)]
    if _is_near(sample, file).mean() < 0.5:  # noqa: PLR2004
        return None
    near, is_near = _nearest(own, file), _is_near(own, file)
    is_end = (own == own[0]) | (own == own[-1])
    excess = np.where(is_near, np.maximum(own_counts - file_counts[near], 0), own_counts)
    excess = np.where(is_end & ~is_near, 0, excess)
    if (excess > 0).sum() > 1 or excess.sum() > num_missing or not is_near.sum() > len(own) / 2:
        return None
    shares = own_counts / own_counts.sum() - file_counts[near] / file_counts.sum()
    distance = float((shares**2).sum() + (~is_near).sum())
    return _Fit(np.where(is_near, order[near], -1), distance)


def _nearest(values: Array, file: Array) -> Array:
    """Return the number of the file's nearest value."""
    near = np.clip(np.searchsorted(file, values), 1, len(file) - 1)
    is_lower = values - file[near - 1] < file[near] - values
    return np.asarray(near - is_lower)


def _is_near(values: Array, file: Array) -> Array:
    distances = np.abs(file[_nearest(values, file)] - values)
    return np.asarray(distances <= 10 * TOLERANCE * np.ptp(values))


def _lines(
    own: Array, own_counts: Array, file: Array, file_counts: Array
) -> Iterator[tuple[float, float]]:
    """Yield slopes and offsets that may lead from the file's values to the recorded ones."""
    yield 1.0, 0.0
    order = file.argsort()
    file, file_counts = file[order], file_counts[order]
    share = own_counts.sum() / file_counts.sum()
    for skip in (0, 1) if len(own) > 4 else (0,):  # noqa: PLR2004
        low, high = own[skip], own[-1 - skip]
        lows = _near_rank(file, file_counts, own_counts[:skip].sum() / share)
        highs = _near_rank(
            file[::-1], file_counts[::-1], own_counts[len(own) - skip :].sum() / share
        )
        for first, last in itertools.product(lows, highs):
            if last > first:
                slope = (high - low) / (last - first)
                yield slope, low - slope * first


def _near_rank(values: Array, counts: Array, rank: float) -> Array:
    """Return the values that may be at a rank of the rows, in a random part of them."""
    spread = ENDS / 2 + 3 * np.sqrt(rank) if rank else 0
    first, last = np.searchsorted(np.cumsum(counts), [rank - spread, rank + spread], side="right")
    return values[first : max(last + 1, first + ENDS)]


def _match(pairs: Sequence[tuple[Array, Array]], size: int) -> Array | None:
    """Return the file's row of each recorded row, -1 if several rows have the same codes.

    None if the file has no row with these codes: a pair is wrong.
    """
    own = np.stack([pair[0] for pair in pairs], axis=1)
    file = np.stack([pair[1] for pair in pairs], axis=1)
    both, codes = np.unique(np.concatenate([file, own]), axis=0, return_inverse=True)
    codes = codes.reshape(-1)
    counts = np.bincount(codes[:size], minlength=len(both))
    is_known = (own >= 0).all(axis=1)
    if not is_known.any() or (counts[codes[size:]][is_known] > 0).mean() < ENOUGH:
        return None
    first = np.full(len(both), -1)
    first[codes[:size]] = np.arange(size)
    rows: Array = np.where(counts == 1, first, -1)[codes[size:]]
    return rows
