"""Columns that together tell a number: it is a sum or a product of them, as of its own parts."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

MOST_ADDED = 4  # columns whose sum or product may be the label
EXACT = 1e-7  # of the label's variance, which such a sum leaves: values are rounded
MOST_ROWS = 2_000
AFTER = "remove what is known only afterwards"

Floats = NDArray[np.float64]


def parts_of(label: Floats, numbers: Mapping[str, Floats]) -> list[str]:
    """Return the columns of which a label is a sum or a product; [] if it is neither.

    Each may have a factor, or an exponent. A row without a label has not a number.
    """
    is_known = np.isfinite(label)
    target = label[is_known][:MOST_ROWS]
    columns = {name: values[is_known][:MOST_ROWS] for name, values in numbers.items()}
    columns = {name: values for name, values in columns.items() if np.isfinite(values).all()}
    if not len(target):
        return []
    if summands := _summands(target, columns):
        return summands
    positive = {name: np.log(values) for name, values in columns.items() if (values > 0).all()}
    return _summands(np.log(target), positive) if (target > 0).all() else []


def _summands(target: Floats, columns: Mapping[str, Floats]) -> list[str]:
    chosen: list[str] = []
    residual = target - target.mean()
    variance = float(residual @ residual)
    for _ in range(min(MOST_ADDED, len(columns))):
        chosen.append(max(columns, key=lambda name: _correlation(columns[name], residual)))
        inputs = np.stack([np.ones(len(target)), *(columns[name] for name in chosen)], axis=1)
        residual = target - inputs @ np.linalg.lstsq(inputs, target, rcond=None)[0]
        if float(residual @ residual) <= EXACT * variance:
            return chosen
    return []


def _correlation(values: Floats, residual: Floats) -> float:
    centred = values - values.mean()
    size = float(np.sqrt(centred @ centred))
    return abs(float(centred @ residual)) / size if size else 0.0
