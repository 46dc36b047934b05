"""Folders and records of a root that the service cannot use: kept in ROOT/lost+found, with notes.

A folder without a record may be all that a damaged database has left of a resource. It is removed
only if it has no files, or if ROOT/unfinished says that its creation or deletion was interrupted.
"""

import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from vertex_local.machine.clock import now

logger = logging.getLogger(__name__)

FOLDER = "lost+found"
NOTES = "NOTES.txt"
UNFINISHED = "unfinished"


def discard(folder: Path) -> None:
    """Remove a folder, if it exists; log if that fails."""
    try:
        shutil.rmtree(folder)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        logger.exception("%s cannot be removed", folder)


@contextmanager
def creation(root: Path, folder: Path) -> Iterator[None]:
    """Mark a folder as unfinished during the block, which creates it and its record."""
    mark = _mark(root, folder)
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


@contextmanager
def deletion(root: Path, folder: Path) -> Iterator[None]:
    """Remove a folder after the block, which deletes its record, or at the next start."""
    mark = _mark(root, folder)
    try:
        yield
    except BaseException:
        mark.unlink(missing_ok=True)
        raise
    discard(folder)
    if not folder.exists():
        mark.unlink(missing_ok=True)


def clear(root: Path, strays: Iterable[Path]) -> None:
    """Remove or keep aside folders that have no record."""
    for folder in filter(Path.is_dir, strays):
        marks = [_mark_of(root, marked) for marked in (folder, folder.parent)]
        if any(mark.exists() for mark in marks) or all(map(Path.is_dir, folder.rglob("*"))):
            logger.info("Removing %s of an interrupted creation or deletion", folder)
            discard(folder)
        else:
            _keep(root, folder)
        if folder.parent.parent != root:  # the folder of a model, which has one for each version
            with suppress(OSError):
                folder.parent.rmdir()


def forget_marks(root: Path) -> None:
    """Remove the marks of an earlier service, once its strays have been cleared."""
    discard(root / UNFINISHED)


def keep_copy(root: Path, name: str, data: bytes, *, problem: str) -> None:
    """Write the data of something that cannot be used to lost+found; note the problem."""
    target = _free_path(root, Path(name))
    with suppress(OSError):  # a full disk
        target.write_bytes(data)
    note(root, f"{problem}; it is kept as {target}")


def note(root: Path, text: str) -> None:
    """Log a problem and add it to the notes, which the console shows."""
    logger.warning("%s", text)
    with suppress(OSError):
        (root / FOLDER).mkdir(exist_ok=True)
        with (root / FOLDER / NOTES).open("a", encoding="utf-8") as file:
            file.write(f"{now(timespec='seconds')} {text}\n")


def notes(root: Path) -> list[str]:
    """Return the notes, oldest first; none once a user has removed lost+found."""
    try:
        return (root / FOLDER / NOTES).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _keep(root: Path, folder: Path) -> None:
    target = _free_path(root, folder.relative_to(root))
    try:
        folder.rename(target)
    except OSError as error:
        logger.warning("%s has no record, and cannot be moved to %s: %s", folder, target, error)
        return
    note(root, f"{folder.relative_to(root)} has no record; it is kept as {target}")


def _free_path(root: Path, relative: Path) -> Path:
    """Return a path in lost+found that does not exist, in a folder that does."""
    first = path = root / FOLDER / relative
    number = 1
    while path.exists():
        number += 1
        path = first.with_name(f"{first.name}~{number}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _mark(root: Path, folder: Path) -> Path:
    mark = _mark_of(root, folder)
    with suppress(OSError):  # a full disk must not prevent a deletion
        mark.parent.mkdir(exist_ok=True)
        mark.touch()
    return mark


def _mark_of(root: Path, folder: Path) -> Path:
    return root / UNFINISHED / quote(str(folder.relative_to(root)), safe="")
