"""The output folder, local or in a mounted bucket, which appears when it is complete."""

import contextlib
import fcntl
import logging
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.tfrecords.shards import SPLITS
from trainer import paths

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
ANOMALIES = "anomalies.json"
INPUT = "input.json"  # the files and days of a run of a pipeline
UNUSED = "unused_files.jsonl"  # pictures without a row of the table
LOCK = ".lock"
OWN_FILE = re.compile(
    rf"({'|'.join(SPLITS)})-\d{{5}}-of-\d{{5}}\.tfrecord(\.gz)?"
    r"|quarantine-\d{5}-of-\d{5}\.jsonl"
    rf"|{re.escape(MANIFEST)}|{re.escape(INPUT)}|{re.escape(UNUSED)}|statistics\.(json|pb)|schema\.pbtxt|report\.html|anomalies\.json"
)


def local_path(path: str | Path) -> Path:
    """Return a path that Python can open: gs://BUCKET is /gcs/BUCKET in Vertex containers.

    Raises:
        DataError: the path is in a bucket, and no bucket is mounted.
    """
    try:
        return paths.local_path(path)
    except ValueError as error:
        raise DataError(str(error)) from error


@contextlib.contextmanager
def published(output: Path, *, last: str = MANIFEST) -> Iterator[Path]:
    """Yield a folder to write to, which is renamed to `output` at the end.

    Folders on a mounted bucket cannot be renamed: there, files are written to `output`, and the
    file that is written `last`, the manifest, marks a complete dataset.
    """
    if paths.is_mounted(output):
        output.mkdir(parents=True, exist_ok=True)
        (output / last).unlink(missing_ok=True)
        yield output
        return
    remove_leftovers(output)
    staged = output.with_name(f".{output.name}.{secrets.token_hex(4)}.partial")
    staged.mkdir(parents=True)
    with (staged / LOCK).open("w") as lock:  # released when this process exits, even killed
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield staged
            if output.exists():
                shutil.rmtree(output)
            (staged / LOCK).unlink()
            os.replace(staged, output)
        finally:
            shutil.rmtree(staged, ignore_errors=True)


def remove_leftovers(output: Path) -> None:
    """Remove the unlocked partial folders that killed runs have left beside `output`.

    Pids in names would not identify running processes: each container has its own, and they recur.
    """
    pattern = re.compile(rf"\.{re.escape(output.name)}\.\w+\.partial")
    entries = list(output.parent.iterdir()) if output.parent.is_dir() else []
    for entry in entries:
        if pattern.fullmatch(entry.name) and not _is_locked(entry / LOCK):
            shutil.rmtree(entry, ignore_errors=True)
            logger.info("removed %s, left by a killed run", entry)


def _is_locked(path: Path) -> bool:
    try:
        with path.open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # being removed by another run
        return False
    return False


def check_replaceable(
    output: Path, *, own: re.Pattern[str] = OWN_FILE, content: str = "a dataset"
) -> None:
    """Check that an output folder contains nothing but an earlier dataset, or other own files.

    Raises:
        DataError: it contains another file; names it.
    """
    if output.exists() and not output.is_dir():
        raise DataError(f"output_dir {output} is a file; use a folder")
    entries = sorted(entry.name for entry in output.iterdir()) if output.exists() else []
    foreign = [name for name in entries if not own.fullmatch(name)]
    if foreign:
        raise DataError(
            f"output_dir {output} contains {foreign[0]!r}, which is not part of {content}: "
            "use a new folder, or empty this one"
        )
