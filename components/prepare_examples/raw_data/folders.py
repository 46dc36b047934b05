"""Folders of raw data."""

from pathlib import Path

from components.prepare_examples.errors import DataError
from trainer import paths
from trainer.errors import did_you_mean
from trainer.references import workload_name

CACHE_DIR = ".trainyard/cache"


def data_folder(workload: str, data_dir: str | Path = "") -> str | Path:
    """Return the folder of a workload's raw files: `data_dir`, or else the default cache."""
    return data_dir or Path(CACHE_DIR, workload_name(workload))


def check_data_dir(data_dir: str) -> None:
    """Check that a data folder exists: a mistyped one would be created and filled with downloads.

    Raises:
        DataError: it does not; suggests an existing folder of a similar name.
    """
    path = Path(data_dir)
    if not data_dir or paths.is_in_bucket(data_dir) or path.is_dir():
        return
    if path.exists():
        raise DataError(f"--data-dir {data_dir} is not a folder")
    hint = did_you_mean(path.name, sorted(folder.name for folder in path.parent.glob("*/")))
    raise DataError(
        f"--data-dir {data_dir}: there is no such folder;{hint} create it first to download the "
        "data into it"
    )
