"""The schema of a table from the declarations of a workload."""

from collections.abc import Iterable, Sequence
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.table_schema import (
    BINARY,
    CLASSES,
    MULTILABEL,
    REGRESSION,
    LabelColumn,
    TableSchema,
)
from trainer.workloads.declarations.features import Feature, Number, TimePart, Timestamp
from trainer.workloads.declarations.labels import Binary, Classes, Label, Multilabel, Regression

FORM = ("decimal", "thousands", "signs")  # of numbers in files, see Written


def label_of(label: Label) -> LabelColumn:
    """Return the column of a label's declaration."""
    made: dict[str, Any] = {"name": label.column, "missing": tuple(label.missing)}
    for name in ("separator", "low", "high", "unit", "positive", "rule_text", *FORM):
        if hasattr(label, name):
            made[name] = getattr(label, name)
    match label:
        case Binary():
            made |= {"kind": BINARY, "is_one_against_rest": label.is_one_against_rest}
            made |= {"rule_columns": tuple(label.rule_columns)}
        case Classes():
            whole = all(type(value) is int for value in label.values)
            made |= {"kind": CLASSES, "values": tuple(label.values)}
            made |= {"is_integer": whole if label.values else None}
        case Multilabel():
            made |= {"kind": MULTILABEL, "values": tuple(label.values)}
        case Regression():
            made |= {"kind": REGRESSION}
        case _:
            raise DataError(f"the label is a {type(label).__name__}, which no table has")
    return LabelColumn(**made)


def schema_of(
    workload: str,
    *,
    features: Iterable[Feature],
    label: Label,
    only_read: Sequence[Feature] = (),
    weight: str = "",
    reference: str = "",
    **more: Any,
) -> TableSchema:
    """Return the schema of a table.

    Args:
        workload: its name.
        features: the columns to store, in the order of the statistics.
        label: the label.
        only_read: columns to read for the label's rule; other ones are any numbers.
        weight: the column of the examples' weights, or "".
        reference: of the workload, for the workers.
        more: `key`, `group_by`, `aliases`, `ignored`, `missing` and `header` of TableSchema.

    Raises:
        DataError: a name is declared twice, or a part of a time lacks its time.
    """
    columns, unstored = [*features, *only_read], {column.name for column in only_read}
    found = label_of(label)
    known = {column.name for column in columns}
    if weight and weight not in known:
        columns.append(Number(weight, low=0, is_required=True))
        known.add(weight)
    for name in found.rule_columns:
        if name not in known:
            columns.append(Number(name))
            unstored.add(name)
    _check(columns, found)
    return TableSchema(
        workload=workload,
        columns=tuple(columns),
        label=found,
        only_read=frozenset(unstored),
        reference=reference,
        **more,
    )


def _check(columns: list[Feature], label: LabelColumn) -> None:
    names = [*(column.name for column in columns), label.name]
    for name in names:
        if names.count(name) > 1:
            both = "a feature and the label" if name == label.name else "two features"
            raise DataError(f"{name!r} is {both} of the workload; declare it once")
    times = [column.name for column in columns if isinstance(column, Timestamp)]
    for column in columns:
        if isinstance(column, TimePart) and column.of not in times:
            raise DataError(
                f"{column.name} is a part of {column.of!r}, which is no timestamp of the workload;"
                f" its timestamps are {', '.join(times) or 'none'}"
            )
