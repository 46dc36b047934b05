"""Columns that tell the label alone, or together: parts of a number, or one-hot columns."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from components.evaluate.gate.telling import FEWEST, Floats, words_of
from components.evaluate.leaks import TrainColumn
from components.shared.text.value_text import first_of

EXACT = 1e-7  # of the label's variance, which a sum leaves: values are rounded
LEAST = 1e-3  # of the largest part, by its deviation
MOST_ROWS = 2_000
MOST_SHOWN = 3
AFTER = "remove what is known only afterwards"


def codes_of(values: pa.Array) -> Floats:
    """Return the number of each row's value, in any order; not a number where it is missing."""
    indices = values.dictionary_encode().indices
    return np.asarray(indices.cast(pa.float64()).fill_null(np.nan))


def find_leaks(
    columns: Iterable[TrainColumn], label: Floats, *, has_classes: bool
) -> dict[str, str]:
    """Return how each column that tells the label does so, by its name, in words.

    A row without a label has not a number.
    """
    words, numbers = {}, {}
    for column in columns:
        if text := words_of(column.codes, column.numbers, label, has_classes=has_classes):
            words[column.name] = text
        else:
            numbers[column.name] = column.numbers
    names = _parts_of(label, numbers, has_classes=has_classes)
    for name in names:
        partners = [partner for partner in names if partner != name]
        words[name] = f"together with {first_of(partners, MOST_SHOWN)}" if partners else "alone"
    return words


def _parts_of(label: Floats, numbers: Mapping[str, Floats], *, has_classes: bool) -> list[str]:
    """Return the columns of which a label is a sum or a product; [] if it is neither.

    Each may have a factor, or an exponent. Of a label with classes, each class is such a sum, as of
    one-hot columns.
    """
    rows = np.flatnonzero(np.isfinite(label))[:MOST_ROWS]
    if not len(rows) or not numbers:
        return []
    target, names = label[rows], np.array([*numbers])
    values = np.stack([own[rows] for own in numbers.values()], axis=1)
    is_usable = np.isfinite(values).all(axis=0) & (np.ptp(values, axis=0) > 0)
    names, values = names[is_usable], values[:, is_usable]
    if has_classes:
        classes, counts = np.unique(target, return_counts=True)
        is_class = target[:, np.newaxis] == classes[counts >= FEWEST]
        return _summands(is_class.astype(np.float64), names, values)
    summands = _summands(target[:, np.newaxis], names, values)
    if summands or not (target > 0).all():
        return summands
    is_positive = (values > 0).all(axis=0)
    logarithms = np.log(values[:, is_positive])
    return _summands(np.log(target)[:, np.newaxis], names[is_positive], logarithms)


def _summands(targets: Floats, names: NDArray[Any], values: Floats) -> list[str]:
    """Return the columns of which each column of `targets` is a sum, the largest parts first."""
    wanted = _scaled(targets[:, np.ptp(targets, axis=0) > 0])
    is_any = len(names) > len(values) // 2  # any number is a sum of so many
    if not wanted.size or not values.size or is_any:
        return []
    values = _scaled(values)
    factors = np.linalg.lstsq(values, wanted, rcond=None)[0]
    if (np.square(wanted - values @ factors).mean(axis=0) > EXACT).any():
        return []
    sizes = np.abs(factors).max(axis=1)
    ranked = np.argsort(-sizes, kind="stable")
    return [str(names[at]) for at in ranked if sizes[at] > LEAST * sizes.max()]


def _scaled(values: Floats) -> Floats:
    """Return columns with mean 0 and deviation 1."""
    centred = values - values.mean(axis=0)
    scaled: Floats = centred / centred.std(axis=0)
    return scaled
