"""The declarations of a workload about its data."""

from collections.abc import Callable
from typing import Any

from components.prepare_examples.errors import DataError
from trainer.workloads import Workload, WorkloadError, load_workload
from trainer.workloads.declarations.sources import Source


def declared(reference: str) -> Workload:
    """Return the workload of a reference.

    Raises:
        DataError: there is no such workload, or its file fails.
    """
    try:
        return load_workload(reference)
    except WorkloadError as error:
        raise DataError(str(error)) from error


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
