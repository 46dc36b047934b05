"""Columns that tell the label alone, or together: parts of a number, or one-hot columns."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from components.evaluate.gate.telling import FEWEST, Floats, words_of
from components.shared.text.value_text import first_of

EXACT = 1e-7  # of the label's variance, which a sum leaves: values are rounded
LEAST = 1e-3  # of the largest part, by its deviation
MOST_ROWS = 2_000
MOST_COLUMNS = 200  # those most like the label
MOST_SHOWN = 3
AFTER = "remove what is known only afterwards"


def codes_of(values: pa.Array) -> Floats:
    """Return the number of each row's value, in any order; not a number where it is missing."""
    indices = values.dictionary_encode().indices
    return np.asarray(indices.cast(pa.float64()).fill_null(np.nan))


def find_leaks(
    columns: Mapping[str, tuple[Floats, Floats]], label: Floats, *, has_classes: bool
) -> dict[str, str]:
    """Return how each column that tells the label does so, by its name, in words.

    A column has codes and, if its values are numbers or two values, numbers.
    """
    alone = {
        name: words_of(codes, numbers, label, has_classes=has_classes)
        for name, (codes, numbers) in columns.items()
    }
    words = {name: text for name, text in alone.items() if text}
    numbers = {name: own for name, (_, own) in columns.items() if name not in words}
    names = parts_of(label, numbers, has_classes=has_classes)
    for name in names:
        partners = [partner for partner in names if partner != name]
        words[name] = f"together with {first_of(partners, MOST_SHOWN)}" if partners else "alone"
    return words


def parts_of(
    label: Floats, numbers: Mapping[str, Floats], *, has_classes: bool = False
) -> list[str]:
    """Return the columns of which a label is a sum or a product; [] if it is neither.

    Each may have a factor, or an exponent. Of a label with classes, each class is such a sum, as of
    one-hot columns. A row without a label has not a number.
    """
    is_known = np.isfinite(label)
    target = label[is_known][:MOST_ROWS]
    if not len(target):
        return []
    columns = {name: values[is_known][:MOST_ROWS] for name, values in numbers.items()}
    columns = {name: values for name, values in columns.items() if _is_usable(values)}
    if not columns:
        return []
    if has_classes:
        classes, counts = np.unique(target, return_counts=True)
        is_class = target[:, np.newaxis] == classes[counts >= FEWEST]
        return _summands(is_class.astype(np.float64), columns)
    if summands := _summands(target[:, np.newaxis], columns):
        return summands
    positive = {name: np.log(values) for name, values in columns.items() if (values > 0).all()}
    is_positive = positive and (target > 0).all()
    return _summands(np.log(target)[:, np.newaxis], positive) if is_positive else []


def _is_usable(values: Floats) -> bool:
    return bool(np.isfinite(values).all() and np.ptp(values) > 0)


def _summands(targets: Floats, columns: Mapping[str, Floats]) -> list[str]:
    """Return the columns of which each column of `targets` is a sum, the largest parts first."""
    wanted = _scaled(targets[:, np.ptp(targets, axis=0) > 0])
    if not wanted.size:
        return []
    names, values = np.array(list(columns)), _scaled(np.stack(list(columns.values()), axis=1))
    most = min(MOST_COLUMNS, len(values) // 2)  # of more, any number is a sum
    if len(names) > most:
        likeness = np.abs(values.T @ wanted).max(axis=1)
        chosen = np.argsort(-likeness)[:most]
        names, values = names[chosen], values[:, chosen]
    factors = np.linalg.lstsq(values, wanted, rcond=None)[0]
    residuals = wanted - values @ factors
    if (np.square(residuals).mean(axis=0) > EXACT).any():
        return []
    sizes = np.abs(factors).max(axis=1)
    ranked = np.argsort(-sizes, kind="stable")
    return [str(names[at]) for at in ranked if sizes[at] > LEAST * sizes.max()]


def _scaled(values: Floats) -> Floats:
    """Return columns with mean 0 and deviation 1."""
    centred = values - values.mean(axis=0)
    scaled: Floats = centred / centred.std(axis=0)
    return scaled
