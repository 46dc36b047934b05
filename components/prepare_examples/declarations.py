"""The declarations of a workload about its data."""

from collections.abc import Callable
from typing import Any

from components.prepare_examples.errors import DataError
from trainer.workloads import Table, Workload, WorkloadError, load_workload
from trainer.workloads.declarations.sources import Source
from trainer.workloads.image_folder import ImageFolder

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
        raise DataError(str(error)) from error


def kind_of(workload: Workload) -> str:
    """Return the kind of a workload's data; DataError if it declares none."""
    if workload.source is not None and workload.source.format is not None:
        return IMAGES
    if isinstance(workload, Table):
        return TABLE
    return IMAGE_FOLDER if isinstance(workload, ImageFolder) else RECORDS


def is_table(reference: str) -> bool:
    """Return whether a reference's workload has a table."""
    return kind_of(declared(reference)) == TABLE


def load_rule(reference: str) -> Callable[..., Any]:
    """Return the rule of the label of a reference's workload."""
    label: Any = declared(reference).label
    rule: Callable[..., Any] = label.rule
    return rule


def source_of(workload: str) -> Source:
    """Return the source of a workload's data; DataError if the workload is unknown, or has none."""
    declaration = declared(workload)
    if declaration.source is None:
        raise DataError(
            f"the workload {declaration.name} declares no source; give your files with"
            " prepare.files (--files)"
        )
    return declaration.source
