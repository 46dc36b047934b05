"""Columns that tell the label by themselves, and so may be known only afterwards."""

from typing import Any

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
    truth = np.unique(label, return_inverse=True)[1]
    if not len(label) or not truth.any():
        return ""
    if has_classes and _miss(np.isnan(codes), truth):
        return "by the rows that miss it"
    is_told = _tell(np.nan_to_num(codes, nan=-1.0), truth, least) or _has_order(
        numbers, label, has_classes=has_classes
    )
    return "alone" if is_told else ""


def _miss(is_missing: NDArray[np.bool_], truth: NDArray[np.intp]) -> bool:
    """Return whether the rows that miss a value, or that have one, are those of a class."""
    parts = (is_missing, ~is_missing)
    if min(map(np.count_nonzero, parts)) < FEWEST:
        return False
    classes = (np.bincount(truth[part]).argmax() for part in parts)
    return any(_share(is_missing, (truth == at).astype(int)) >= NEARLY for at in classes)


def _tell(codes: Floats, truth: NDArray[np.intp], least: float) -> bool:
    """Return whether rows with the same value have the same label, and values several rows."""
    if least == 1 and _share(codes[:FEW_ROWS], truth[:FEW_ROWS]) < 1:
        return False
    has_rows = len(np.unique(codes)) * ROWS_OF_VALUE <= len(codes)
    return has_rows and _share(codes, truth) >= least


def _share(values: NDArray[Any], truth: NDArray[np.intp]) -> float:
    """Return the share of the rows without the most frequent label that values tell.

    Each value is taken for its most frequent label. It is Goodman and Kruskal's lambda.
    """
    numbers = np.unique(values, return_inverse=True)[1]
    size = int(truth.max()) + 1
    pairs, counts = np.unique(numbers * size + truth, return_counts=True)
    most = np.zeros(int(numbers.max()) + 1, np.int64)
    np.maximum.at(most, pairs // size, counts)
    base = int(np.bincount(truth).max())
    return (int(most.sum()) - base) / (len(truth) - base) if len(truth) > base else 1.0


def _has_order(numbers: Floats, label: Floats, *, has_classes: bool) -> bool:
    """Return whether a number has the order of the label, as its logarithm or threshold has.

    Of classes, each has a range of numbers, as grades have.
    """
    is_known = np.isfinite(numbers)
    numbers, label = numbers[is_known], label[is_known]
    sizes = np.unique(label, return_counts=True)[1]
    if len(sizes) < 2 or (sizes.min() if has_classes else len(sizes)) < FEWEST:  # noqa: PLR2004
        return False
    rows = np.lexsort((label, numbers))
    steps = np.diff(label[rows])
    if steps[np.diff(numbers[rows]) == 0].any():  # a number has two labels
        return False
    if has_classes:
        return bool(np.count_nonzero(steps) == len(sizes) - 1)
    return bool((steps >= 0).all() or (steps <= 0).all())
