"""Columns that the names of folders hold, as `year=2025/month=11` (Hive, Spark, BigQuery)."""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from trainer.workloads.declarations.names import normal_form

MISSING = "__HIVE_DEFAULT_PARTITION__"


def folder_columns(path: str, names: Iterable[str]) -> dict[str, str | None]:
    """Return the columns of a file's folders, without those that the file has itself."""
    pairs = [part.split("=", 1) for part in Path(path).parts[:-1] if "=" in part]
    present = {normal_form(name) for name in names}
    return {
        name: None if value == MISSING else unquote(value)
        for name, value in pairs
        if name and normal_form(name) not in present
    }
