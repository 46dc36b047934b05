"""Archives of class folders, zip or tar, unpacked into the cache."""

import contextlib
import gzip
import logging
import lzma
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.files import sha256_of

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
FOLDER = ".unpacked"  # hidden: the cache folder may hold class folders itself
_ENCRYPTED = 1  # of a zip member's flags
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError),
    *(EOFError, KeyError, NotImplementedError),  # a link to no member, an unknown compression
)
_DIGEST_DIGITS = 12
MAX_RATIO = 100
SMALL_BYTES = 100_000_000  # always allowed
_BLOCK_BYTES = 1 << 20

logger = logging.getLogger(__name__)

Member = tuple[str, IO[bytes]]


def is_archive(path: str | Path) -> bool:
    """Return whether a file has the name of an archive."""
    return str(path).lower().endswith(SUFFIXES)


def unpack(archive: Path, data_dir: Path) -> Path:
    """Return the folder with the content of an archive, unpacked once into a cache folder.

    A folder that holds everything else, as in most archives, is returned itself. Links and hidden
    files are not unpacked.

    Raises:
        DataError: the archive is damaged, encrypted or unpacks to much more than its size, or has
            a path that leaves the folder.
    """
    name = archive.name.partition(".")[0]
    folder = data_dir / FOLDER / f"{name}-{sha256_of(archive)[:_DIGEST_DIGITS]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unpack-", dir=folder.parent) as partial:
            content = Path(partial, "content")
            content.mkdir()
            _extract(archive, content)
            with contextlib.suppress(OSError):  # another process was faster
                content.rename(folder)
        if not folder.is_dir():
            raise DataError(f"{archive} could not be unpacked to {folder}")
    return _innermost(folder)


def _innermost(folder: Path) -> Path:
    """Return the folder below which everything is; a single class would be of no use."""
    entries = list(folder.iterdir())
    return _innermost(entries[0]) if len(entries) == 1 and entries[0].is_dir() else folder


def _extract(archive: Path, folder: Path) -> None:
    num_files = num_bytes = 0
    most = max(SMALL_BYTES, MAX_RATIO * archive.stat().st_size)
    try:
        for name, content in _members(archive):
            path = _inside(name, archive)
            if any(part.startswith(".") or part == "__MACOSX" for part in path.parts):
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with content, target.open("wb") as file:
                while block := content.read(_BLOCK_BYTES):
                    num_bytes += len(block)
                    if num_bytes > most:
                        raise DataError(
                            f"{archive} has {archive.stat().st_size:,} bytes, but unpacks to more"
                            f" than {most:,}: at most {MAX_RATIO} times as much is allowed, since"
                            " archives may be made to fill disks. If you trust it, unpack it"
                            " yourself, without a limit, and name its folder in prepare.files"
                        )
                    file.write(block)
            num_files += 1
    except _DAMAGED as error:
        raise DataError(f"{archive} is not a complete archive: {error}; copy it again") from error
    if not num_files:
        raise DataError(f"{archive} has no files; it must hold a folder of images for each class")
    logger.info("%s: %d files unpacked to the cache", archive, num_files)


def _members(archive: Path) -> Iterator[Member]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if info.flag_bits & _ENCRYPTED:
                    raise DataError(f"{archive} is encrypted; unpack it, and give its folder")
                if not info.is_dir():
                    yield info.filename, packed.open(info)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            # A hard link has the content of an earlier member; a symbolic one may lead anywhere.
            content = tar.extractfile(member) if member.isfile() or member.islnk() else None
            if content is not None:
                yield member.name, content


def _inside(name: str, archive: Path) -> PurePosixPath:
    """Return a member's path; DataError if it leaves the folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or re.match("[A-Za-z]:", name):
        raise DataError(
            f"{archive} has the path {name!r}, which leads out of its folder; nothing was unpacked"
        )
    return path
