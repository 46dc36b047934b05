"""Checks of the values of records against the declaration."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.existing_records.record_schema import FLOAT, RecordFeature
from trainer.workloads.declarations.labels import Binary, Classes, Label, Multilabel, Regression


def wrong_values(column: pa.Array, feature: RecordFeature, label: Label) -> dict[int, str]:
    """Return the rows whose values do not fit the declaration, each with the reason."""
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    wrong = {}
    if feature.shape is not None:
        size = int(np.prod(feature.shape))
        is_wrong = (lengths != size) & ((lengths > 0) | feature.is_required)
        for row in np.flatnonzero(is_wrong).tolist():
            is_missing = lengths[row] == 0
            wrong[row] = "is missing" if is_missing else f"{lengths[row]} values instead of {size}"
    values = pc.list_flatten(column)
    if feature.dtype == FLOAT:
        is_bad = ~np.isfinite(values.to_numpy(zero_copy_only=False))
        for position in np.flatnonzero(is_bad).tolist():
            row = int(np.repeat(np.arange(len(lengths)), lengths)[position])
            wrong.setdefault(row, f"{values[position].as_py()} is not a finite number")
    if feature.name == label.name:
        for row, items in enumerate(column.to_pylist()):
            reason = _wrong_label(items, label)
            if reason and row not in wrong:
                wrong[row] = reason
    return wrong


def _wrong_label(items: list[Any], label: Label) -> str:
    for item in items:
        value: Any = item.decode(errors="replace") if isinstance(item, bytes) else item
        if isinstance(label, Binary) and value not in {0, 1}:
            return f"{value} is not 0 or 1"
        classes = label.values if isinstance(label, Classes | Multilabel) else ()
        if classes and value not in classes and str(value) not in classes:
            return f"{value!r} is not a class; allowed: {', '.join(map(str, classes[:10]))}"
        if isinstance(label, Regression):
            low = -math.inf if label.low is None else label.low
            high = math.inf if label.high is None else label.high
            if not low <= value <= high:
                return f"{value} is impossible; allowed: {label.allowed}"
    return ""
