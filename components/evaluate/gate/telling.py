"""Columns that tell the label by themselves, and so may be known only afterwards."""

import numpy as np
from numpy.typing import NDArray

ROWS_OF_VALUE = 5  # on average; of fewer, any values tell
FEWEST = 10  # rows of a class, or values of a number, whose order is no chance
FEW_ROWS = 2_000  # show most columns that do not tell
NEARLY = 0.9  # of the rows beside the most frequent class: enough of what is missing

Floats = NDArray[np.float64]


def words_of(
    codes: Floats, numbers: Floats, label: Floats, *, has_classes: bool, least: float = 1.0
) -> str:
    """Return how a column tells the label, or a class of it, in words; "" if it does not.

    Args:
        codes: the number of each row's value, not a number where it is missing.
        numbers: the values, if they are numbers; else none is a number.
        label: numbers, or the codes of classes; not a number where it is missing.
        has_classes: the label has classes.
        least: share of the rows without the most frequent label whose values tell it.
    """
    is_known = np.isfinite(label)
    codes, numbers, label = codes[is_known], numbers[is_known], label[is_known]
    if not len(label):
        return ""
    if has_classes and _miss(np.isnan(codes), label):
        return "by the rows that miss it"
    codes, few = np.nan_to_num(codes, nan=-1.0), slice(FEW_ROWS if least == 1 else None)
    is_told = _share(codes[few], label[few]) >= least and _tell(codes, label, least)
    is_told = is_told or (
        _is_ordered(numbers[few], label[few], has_classes=has_classes)
        and _has_several(numbers, label, has_classes=has_classes)
        and _is_ordered(numbers, label, has_classes=has_classes)
    )
    return "alone" if is_told else ""


def _miss(is_missing: NDArray[np.bool_], label: Floats) -> bool:
    """Return whether the rows that miss a value, or that have one, are those of a class."""
    num_missing = np.count_nonzero(is_missing)
    if min(num_missing, len(label) - num_missing) < FEWEST:
        return False
    truth = np.unique(label, return_inverse=True)[1]
    counts = np.bincount(2 * truth + is_missing, minlength=2 * truth.max() + 2).reshape(-1, 2)
    tables = (np.stack([counts[at], counts.sum(axis=0) - counts[at]]) for at in counts.argmax(0))
    return any(
        _told(table.max(0).sum(), table.sum(1).max(), len(label)) >= NEARLY for table in tables
    )


def _tell(codes: Floats, label: Floats, least: float) -> bool:
    """Return whether rows with the same value have the same label, and values several rows."""
    has_rows = len(np.unique(codes)) * ROWS_OF_VALUE <= len(codes)
    return has_rows and bool(np.ptp(label) > 0) and _share(codes, label) >= least


def _share(values: Floats, label: Floats) -> float:
    """Return the share of the rows that values tell, each taken for its most frequent label."""
    numbers, truth = (np.unique(column, return_inverse=True)[1] for column in (values, label))
    size = int(truth.max()) + 1
    pairs, counts = np.unique(numbers * size + truth, return_counts=True)
    most = np.zeros(int(numbers.max()) + 1, np.int64)
    np.maximum.at(most, pairs // size, counts)
    return _told(most.sum(), np.bincount(truth).max(), len(truth))


def _told(num_right: int, num_frequent: int, num_rows: int) -> float:
    """Return the share of right rows of those without the most frequent label.

    It is Goodman and Kruskal's lambda; 1 if there is no other label.
    """
    others = num_rows - num_frequent
    return (num_right - num_frequent) / others if others else 1.0


def _has_several(numbers: Floats, label: Floats, *, has_classes: bool) -> bool:
    """Return whether rows with a number have enough labels, or rows of each class, to order."""
    sizes = np.unique(label[np.isfinite(numbers)], return_counts=True)[1]
    return len(sizes) > 1 and (sizes.min() if has_classes else len(sizes)) >= FEWEST


def _is_ordered(numbers: Floats, label: Floats, *, has_classes: bool) -> bool:
    """Return whether a number has the order of the label, as its logarithm or threshold has.

    Of classes, each has a range of numbers, as grades have.
    """
    is_known = np.isfinite(numbers)
    numbers, label = numbers[is_known], label[is_known]
    rows = np.lexsort((label, numbers))
    steps = np.diff(label[rows])
    if steps[np.diff(numbers[rows]) == 0].any():  # a number has two labels
        return False
    if has_classes:
        return bool(np.count_nonzero(steps) < len(np.unique(label)))
    return bool((steps >= 0).all() or (steps <= 0).all())
