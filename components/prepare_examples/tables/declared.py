"""The schema of a table from the declarations of a workload."""

from dataclasses import replace
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.table_schema import TableSchema
from trainer.workloads import Table, Workload
from trainer.workloads.declarations.features import Feature, Number, TimePart, Timestamp
from trainer.workloads.declarations.labels import Binary, Classes, Label

COLUMNS = ("features", "only_read", "label", "weight")
AS_DECLARED = ("key", "group_by", "aliases", "ignored", "missing", "header")


def schema_of(workload: Workload, **changes: Any) -> TableSchema:
    """Return the schema of a workload's table, perhaps with changes of its declarations.

    Columns of the label's rule that are not declared are any numbers.

    Raises:
        DataError: a name is declared twice, or a part of a time lacks its time.
    """
    assert isinstance(workload, Table)
    fields = {name: getattr(workload, name) for name in (*COLUMNS, *AS_DECLARED)} | changes
    label, weight = fields["label"], fields["weight"]
    columns = [*fields["features"], *fields["only_read"]]
    unstored = {column.name for column in fields["only_read"]}
    known = {column.name for column in columns}
    if weight and weight not in known:
        columns.append(Number(weight, low=0, is_required=True))
        known.add(weight)
    for name in label.rule_columns if isinstance(label, Binary) else ():
        if name not in known:
            columns.append(Number(name))
            unstored.add(name)
    _check(columns, label)
    return TableSchema(
        workload=workload.name,
        columns=tuple(columns),
        label=replace(label, rule=None) if isinstance(label, Binary) else label,
        has_whole_classes=has_whole_classes(label),
        only_read=frozenset(unstored),
        reference=workload.reference,
        **{name: fields[name] for name in AS_DECLARED},
    )


def has_whole_classes(label: Label) -> bool | None:
    """Return whether the declared classes are whole numbers, None without any."""
    if not isinstance(label, Classes) or not label.values:
        return None
    return all(type(value) is int for value in label.values)


def _check(columns: list[Feature], label: Label) -> None:
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
