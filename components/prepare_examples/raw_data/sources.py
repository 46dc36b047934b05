"""The source of each workload's raw data."""

from components.prepare_examples.declarations import declared
from components.prepare_examples.errors import DataError
from trainer.workloads.declarations.sources import Source


def source_of(workload: str) -> Source:
    """Return the source of a workload's data.

    Raises:
        DataError: the workload is unknown, or has none.
    """
    found = declared(workload)
    if found.source is None:
        raise DataError(
            f"the workload {found.name} declares no source; give your files with"
            " prepare.files (--files)"
        )
    return found.source
