"""Columns that tell the label, and so may be known only afterwards."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pipelines.projects.leaks import Floats, parts_of
from pipelines.projects.starter.labels import BINARY, REGRESSION, LabelGuess
from pipelines.projects.starter.texts import FEATURE, Guess, Texts

MOST_TELLING = 50  # values of a column that may tell the label, unless both have the same order
FEWEST = 10  # rows of a class, or values of a number, whose order is no chance


def leaks_of(guesses: Sequence[Guess], label: LabelGuess) -> dict[str, str]:
    """Return a warning by the name of each feature that tells the label, alone or with others."""
    features = [guess for guess in guesses if guess.role == FEATURE]
    values = _label_numbers(label)
    alone = [
        guess
        for guess in features
        if _tells_values(guess.column, label) or _has_order(guess.column, values)
    ]
    after = "remove it if it is known only afterwards"
    warnings = {guess.name: f"tells {label.column.name} alone: {after}" for guess in alone}
    numbers = {guess.name: guess.column.per_row for guess in features if guess.kind == "Number"}
    if label.kind == REGRESSION and not alone:
        names = parts_of(values, numbers)
        for name in names:
            partners = " and ".join(partner for partner in names if partner != name)
            warnings[name] = f"tells {label.column.name} together with {partners}: {after}"
    return warnings


def _label_numbers(label: LabelGuess) -> Floats:
    values = label.column.values
    if label.kind == REGRESSION:
        return label.column.per_row
    if label.kind != BINARY:
        return np.full(len(values), np.nan)
    codes = values.dictionary_encode().indices.cast(pa.float64()).fill_null(np.nan)
    return np.asarray(codes, np.float64)


def _tells_values(column: Texts, target: LabelGuess) -> bool:
    """Return whether rows with the same value of a column have the same class."""
    label = target.column
    if target.kind == REGRESSION or column.num_unique > min(MOST_TELLING, len(label.values) / 10):
        return False
    pairs = pa.table({"column": column.values, "label": label.values}).group_by(["column", "label"])
    num_values = column.num_unique + (column.values.null_count > 0)
    return bool(pairs.aggregate([]).num_rows <= num_values and num_values >= label.num_unique)


def _has_order(column: Texts, label: Floats) -> bool:
    """Return whether a number has the order of the label, as its logarithm or threshold has."""
    numbers = column.per_row
    is_known = np.isfinite(numbers) & np.isfinite(label)
    pairs = np.unique(np.stack([numbers[is_known], label[is_known]], axis=1), axis=0)
    sizes = np.unique(label[is_known], return_counts=True)[1]
    if len(sizes) < 2 or (sizes.min() if len(sizes) == 2 else len(sizes)) < FEWEST:  # noqa: PLR2004
        return False
    steps = np.diff(pairs[:, 1])
    is_function = bool((np.diff(pairs[:, 0]) > 0).all())
    return is_function and bool((steps >= 0).all() or (steps <= 0).all())
