"""The declarations of a workload about its data."""

from collections.abc import Callable
from typing import Any

from components.prepare_examples.errors import DataError
from trainer.workloads import taxi_table
from trainer.workloads.base import Workload
from trainer.workloads.features import Category, Number, TimePart, Timestamp
from trainer.workloads.images import ImageWorkload
from trainer.workloads.labels import Binary
from trainer.workloads.loading import WorkloadError, load_workload

# Kinds of data.
TABLE, IMAGES, IMAGE_FOLDER, RECORDS = "table", "images", "image_folder", "records"


def declared(reference: str) -> Workload:
    """Return the workload of a reference.

    Raises:
        DataError: there is no such workload, or its file fails.
    """
    try:
        return load_workload(reference)
    except WorkloadError as error:
        raise DataError(f"workload: {error}") from error


def kind_of(workload: Workload) -> str:
    """Return the kind of a workload's data.

    Raises:
        DataError: it declares none.
    """
    if workload.source is not None and workload.source.format is not None:
        return IMAGES
    return IMAGE_FOLDER if isinstance(workload, ImageWorkload) else TABLE


def is_table(reference: str) -> bool:
    """Return whether a reference's workload has a table."""
    return kind_of(declared(reference)) == TABLE


def load_rule(reference: str) -> Callable[..., Any]:
    """Return the rule of the label of a reference's workload."""
    rule: Callable[..., Any] = table_fields(declared(reference))["label"].rule
    return rule


def table_fields(workload: Workload) -> dict[str, Any]:
    """Return the arguments of tables.declared.schema_of for a workload."""
    if hasattr(workload, "only_read"):
        names: tuple[str, ...] = ("features", "label", "only_read", "weight", "key", "group_by")
        names += ("aliases", "ignored", "missing")
        return {name: getattr(workload, name) for name in names}
    return _taxi_fields()


def _taxi_fields() -> dict[str, Any]:
    limits = taxi_table.LIMITS

    def bounds(name: str) -> dict[str, Any]:
        found = limits[name]
        return {"low": found.low, "high": found.high, "unit": found.unit}

    features: list[Any] = [Number(name, **bounds(name)) for name in taxi_table.FLOATS]
    for name in taxi_table.INTS:
        if name in taxi_table.DERIVED:
            low, high = limits[name].low, limits[name].high
            part = taxi_table.DERIVED[name]
            features.append(TimePart(name, of=taxi_table.TIME, part=part, low=low, high=high))
        elif name == taxi_table.TIME:
            zone = taxi_table.TIME_ZONE
            features.append(Timestamp(name, time_zone=zone, is_required=True, **bounds(name)))
        else:
            features.append(Category(name, **bounds(name)))
    features += [Category(name) for name in taxi_table.STRINGS]
    return {
        "features": features,
        "label": Binary(
            taxi_table.LABEL,
            rule=taxi_table.make_label,
            rule_columns=taxi_table.LABEL_COLUMNS,
            rule_text=taxi_table.LABEL_RULE,
        ),
        "only_read": [Number("tips", **bounds("tips"))],
        "key": taxi_table.ROW_KEY,
        "group_by": taxi_table.GROUP_KEY,
        "aliases": taxi_table.PORTAL_NAMES,
        "ignored": tuple(n for n in taxi_table.DROPPED if n not in {*taxi_table.KEYS, "tips"}),
    }
