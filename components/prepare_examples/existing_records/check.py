"""Checks of the values of records against the declaration."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.existing_records.record_schema import FLOAT, RecordFeature
from components.prepare_examples.tables.table_schema import BINARY, LabelColumn


def wrong_values(column: pa.Array, feature: RecordFeature, label: LabelColumn) -> dict[int, str]:
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
        for place in np.flatnonzero(is_bad).tolist():
            row = int(np.repeat(np.arange(len(lengths)), lengths)[place])
            wrong.setdefault(row, f"{values[place].as_py()} is not a finite number")
    if feature.name == label.name:
        for row, items in enumerate(column.to_pylist()):
            reason = _wrong_label(items, label)
            if reason and row not in wrong:
                wrong[row] = reason
    return wrong


def _wrong_label(items: list[Any], label: LabelColumn) -> str:
    for item in items:
        value: Any = item.decode(errors="replace") if isinstance(item, bytes) else item
        if label.kind == BINARY and value not in {0, 1}:
            return f"{value} is not 0 or 1"
        if label.values and value not in label.values and str(value) not in label.values:
            return f"{value!r} is not a class; allowed: {', '.join(map(str, label.values[:10]))}"
        if label.low is not None and value < label.low:
            return f"{value} is impossible; it must be at least {label.low}"
        if label.high is not None and value > label.high:
            return f"{value} is impossible; it must be at most {label.high}"
    return ""
