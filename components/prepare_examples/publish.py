"""The output folder: local or in a mounted bucket, complete or not there at all."""

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
LOCK = ".lock"
OWN_FILE = re.compile(
    rf"({'|'.join(SPLITS)})-\d{{5}}-of-\d{{5}}\.tfrecord(\.gz)?"
    r"|quarantine-\d{5}-of-\d{5}\.jsonl"
    rf"|{re.escape(MANIFEST)}|statistics\.(json|pb)|schema\.pbtxt|report\.html|anomalies\.json"
)


def local_path(path: str | Path) -> Path:
    """A path that Python can open: gs://BUCKET is /gcs/BUCKET in every Vertex container.

    Raises:
        DataError: a bucket is named where none is mounted.
    """
    try:
        return paths.local_path(path)
    except ValueError as error:
        raise DataError(str(error)) from error


@contextlib.contextmanager
def published(output: Path) -> Iterator[Path]:
    """A folder to write in, which takes the name `output` when all is written.

    On a mounted bucket a folder cannot be renamed: there, files go to their place at once and the
    manifest, written last, is the mark of a whole dataset.
    """
    if paths.is_mounted(output):
        output.mkdir(parents=True, exist_ok=True)
        (output / MANIFEST).unlink(missing_ok=True)
        yield output
        return
    remove_leftovers(output)
    staged = output.with_name(f".{output.name}.{secrets.token_hex(4)}.partial")
    staged.mkdir(parents=True)
    with (staged / LOCK).open("w") as lock:  # its end, even by a kill, frees the folder
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
    """Remove the folders that killed runs into the same place have left: nobody locks them.

    Their names tell nothing: pids are a container's or a PID namespace's own, and come again.
    """
    pattern = re.compile(rf"\.{re.escape(output.name)}\.\w+\.partial")
    entries = list(output.parent.iterdir()) if output.parent.is_dir() else []
    for entry in entries:
        if pattern.fullmatch(entry.name) and not _is_locked(entry / LOCK):
            shutil.rmtree(entry, ignore_errors=True)
            logger.info("%s, which a killed run had left, is removed", entry)


def _is_locked(path: Path) -> bool:
    try:
        with path.open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # an older version wrote none, or another run is removing the folder
        return False
    return False


def check_replaceable(output: Path) -> None:
    """Refuse an output folder with anything in it that is not of an earlier dataset.

    Raises:
        DataError: names what is there.
    """
    if output.exists() and not output.is_dir():
        raise DataError(f"output_dir {output} is a file; name a folder")
    entries = sorted(entry.name for entry in output.iterdir()) if output.exists() else []
    strangers = [name for name in entries if not OWN_FILE.fullmatch(name)]
    if strangers:
        raise DataError(
            f"output_dir {output} holds {strangers[0]!r}, which is no prepared example: "
            "name a new folder, or empty this one"
        )
