"""Columns that tell the label, and so may be known only afterwards."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from components.shared.text.value_text import first_of
from pipelines.projects.leaks import FEWEST, Floats, codes_of, parts_of
from pipelines.projects.starter.labels import BINARY, CLASSES, REGRESSION, LabelGuess
from pipelines.projects.starter.texts import FEATURE, Guess, Texts

MOST_TELLING = 50  # values of a column that may tell the label, unless it has as many
MOST_SHOWN = 3


def leaks_of(guesses: Sequence[Guess], label: LabelGuess) -> dict[str, str]:
    """Return a warning by the name of each feature that tells the label, alone or with others."""
    features = [guess for guess in guesses if guess.role == FEATURE]
    has_classes = label.kind in (BINARY, CLASSES)
    values = codes_of(label.column.values) if has_classes else label.column.per_row
    alone = [
        guess.name
        for guess in features
        if _tells_values(guess.column, label)
        or _has_order(guess.column.per_row, values, has_classes=has_classes)
    ]
    after = "remove it if it is known only afterwards"
    warnings = dict.fromkeys(alone, f"tells {label.column.name} alone: {after}")
    numbers = {guess.name: numbers_of(guess) for guess in features if guess.name not in warnings}
    names = parts_of(values, numbers, has_classes=has_classes)
    for name in names:
        partners = [partner for partner in names if partner != name]
        with_whom = f"together with {first_of(partners, MOST_SHOWN)}" if partners else "alone"
        warnings[name] = f"tells {label.column.name} {with_whom}: {after}"
    return warnings


def numbers_of(guess: Guess) -> Floats:
    """Return the numbers of a feature, or those of its two values; no numbers of other features."""
    column = guess.column
    is_flag = guess.kind == "Category" and column.num_unique == 2  # noqa: PLR2004
    return codes_of(column.values) if is_flag else column.per_row


def _tells_values(column: Texts, target: LabelGuess) -> bool:
    """Return whether rows with the same value of a column have the same class."""
    label = target.column
    most = min(max(MOST_TELLING, label.num_unique), len(label.values) / 10)
    if target.kind == REGRESSION or column.num_unique > most:
        return False
    pairs = pa.table({"column": column.values, "label": label.values}).group_by(["column", "label"])
    num_values = column.num_unique + (column.values.null_count > 0)
    return bool(pairs.aggregate([]).num_rows <= num_values and num_values >= label.num_unique)


def _has_order(numbers: Floats, label: Floats, *, has_classes: bool) -> bool:
    """Return whether a number has the order of the label, as its logarithm or threshold has.

    Of classes, each has a range of numbers, as grades have.
    """
    is_known = np.isfinite(numbers) & np.isfinite(label)
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
