"""The features of records, from the declarations of a workload."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.errors import DataError
from components.prepare_examples.statistics.states import Statistic, new_statistic
from components.prepare_examples.tables.table_schema import MAX_CLASSES
from trainer.workloads import Workload
from trainer.workloads.declarations.labels import Label

FLOAT, INT, BYTES = "float32", "int64", "string"
LONGEST_TEXT = 256
KINDS = {FLOAT: "float", INT: "int", BYTES: "text"}  # of statistics.states.new_statistic
DTYPES = {kind: dtype for dtype, kind in KINDS.items()}


@dataclass(frozen=True, kw_only=True)
class RecordFeature:
    """A feature of a tf.train.Example, of FLOAT, INT or BYTES.

    Its shape is None for any number of values. Records without a required one are bad. Images and
    other binary data are not counted in the statistics.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None = ()
    is_required: bool = True
    is_counted: bool = True

    @property
    def is_list(self) -> bool:
        """True if a record may have several values."""
        return self.shape != ()


@dataclass(frozen=True, kw_only=True)
class RecordSchema:
    """The features of records, and their label."""

    workload: str
    features: tuple[RecordFeature, ...]
    label: Label

    def new_statistics(self) -> dict[str, Statistic]:
        """Return empty statistics of the features that have any."""
        return {
            feature.name: new_statistic(
                KINDS[feature.dtype],
                is_list=feature.is_list,
                num_listed=MAX_CLASSES if feature.name == self.label.name else 0,
            )
            for feature in self.features
            if feature.is_counted
        }


def schema_of(
    workload: Workload,
    sample: Mapping[str, tuple[str, list[Any]]],
    *,
    deciding: Sequence[str] = (),
) -> RecordSchema:
    """Return the schema of a workload's records.

    Its `features` are, by name, anything with a dtype and perhaps a shape, such as
    tf.io.FixedLenFeature. The sample has type and values of each feature of the first record;
    `deciding` are further features, which decide the split.

    Raises:
        DataError: the first record has no such label, or no such feature.
    """
    label = workload.label
    declared: Mapping[str, Any] = workload.features  # type: ignore[attr-defined]
    features = [_feature(name, spec) for name, spec in declared.items() if name != label.name]
    if workload.weight and workload.weight not in declared:
        features.append(RecordFeature(name=workload.weight, dtype=FLOAT))
    features.append(_label_feature(label, sample))
    for name in deciding:
        features += _deciding(name, features, sample)
    counted = [replace(feature, is_counted=_is_counted(feature, sample)) for feature in features]
    return RecordSchema(workload=workload.name, features=tuple(counted), label=label)


def _feature(name: str, spec: Any) -> RecordFeature:
    dtype = getattr(spec.dtype, "name", spec.dtype)
    if dtype not in KINDS:
        raise DataError(f"{name} has the type {dtype}; records hold {', '.join(KINDS)}")
    if not hasattr(spec, "shape"):  # VarLenFeature and RaggedFeature
        return RecordFeature(name=name, dtype=dtype, shape=None, is_required=False)
    is_required = getattr(spec, "default_value", None) is None
    return RecordFeature(name=name, dtype=dtype, shape=tuple(spec.shape), is_required=is_required)


def _deciding(
    name: str, features: Sequence[RecordFeature], sample: Mapping[str, tuple[str, list[Any]]]
) -> list[RecordFeature]:
    """Return a feature that decides the split, unless it is declared; it has one value."""
    declared = [feature for feature in features if feature.name == name]
    if any(feature.is_list for feature in declared):
        raise DataError(f"split: the feature {name!r} has several values; split by another one")
    if declared:
        return []
    if name not in sample:
        raise DataError(f"split: the records have no {name!r}; they have {', '.join(sample)}")
    return [RecordFeature(name=name, dtype=sample[name][0], is_required=False, is_counted=False)]


def _label_feature(label: Label, sample: Mapping[str, tuple[str, list[Any]]]) -> RecordFeature:
    if label.is_list:
        return RecordFeature(name=label.name, dtype=BYTES, shape=None, is_required=False)
    if label.storage:
        return RecordFeature(name=label.name, dtype=DTYPES[label.storage])
    if label.name not in sample:
        names = ", ".join(sorted(sample))
        raise DataError(f"the first record has no label {label.name!r}; it has {names}")
    return RecordFeature(name=label.name, dtype=sample[label.name][0])


def _is_counted(feature: RecordFeature, sample: Mapping[str, tuple[str, list[Any]]]) -> bool:
    """Return whether a feature is counted: unless it is binary data, or very long texts."""
    _, values = sample.get(feature.name, ("", []))
    is_binary = feature.dtype == BYTES and any(
        len(value) > LONGEST_TEXT or value.decode(errors="ignore").encode() != value
        for value in values
    )
    return feature.is_counted and not is_binary


def wrong_values(column: pa.Array, feature: RecordFeature, label: Label) -> dict[int, str]:
    """Return the rows whose values do not fit the declaration, each with the reason."""
    lengths = np.asarray(pc.list_value_length(column))
    wrong: dict[int, str] = {}
    if feature.shape is not None:
        size = int(np.prod(feature.shape))
        is_wrong = (lengths != size) & ((lengths > 0) | feature.is_required)
        for row in np.flatnonzero(is_wrong).tolist():
            wrong[row] = (
                f"{lengths[row]} values instead of {size}" if lengths[row] else "is missing"
            )
    if feature.dtype == FLOAT:
        values = np.asarray(pc.list_flatten(column))
        rows = np.repeat(np.arange(len(lengths)), lengths)
        for position in np.flatnonzero(~np.isfinite(values)).tolist():
            wrong.setdefault(int(rows[position]), f"{values[position]} is not a finite number")
    if feature.name == label.name:
        for row, items in enumerate(column.to_pylist()):
            if reason := _wrong_label(items, label):
                wrong.setdefault(row, reason)
    return wrong


def _wrong_label(items: list[Any], label: Label) -> str:
    for item in items:
        value: Any = item.decode(errors="replace") if isinstance(item, bytes) else item
        if reason := label.why_wrong(value):
            return reason
    return ""
