"""Files that appear whole and verified, or not at all."""

import base64
import gzip
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TypeVar

from components.prepare_examples.errors import DamagedError

CHUNK_BYTES = 1 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")


def sha256_of(path: Path) -> str:
    """The hexadecimal SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """What `function` answers for each item, in as many threads as there are cores."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(function, items))


def digests_of(path: Path) -> dict[str, str]:
    """The manifest's digests of a file, read once: its SHA-256 and, as gs:// has it, its CRC32C."""
    import google_crc32c

    sha256, crc32c = hashlib.sha256(), 0
    with path.open("rb") as file:
        for chunk in chunks_of(file):
            sha256.update(chunk)
            crc32c = google_crc32c.extend(crc32c, chunk)
    encoded = base64.b64encode(crc32c.to_bytes(4, "big")).decode()
    return {"sha256": sha256.hexdigest(), "crc32c": encoded}


def save(chunks: Iterable[bytes], path: Path, *, sha256: str | None) -> None:
    """Writes `chunks` to `path` in one step, after their SHA-256 has been checked (None: any).

    Raises:
        DamagedError: the content is another one; nothing is left behind.
    """
    digest = hashlib.sha256()
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("wb") as file:
            for chunk in chunks:
                digest.update(chunk)
                file.write(chunk)
        if sha256 is not None and digest.hexdigest() != sha256:
            raise DamagedError(
                f"{path.name} has SHA-256 {digest.hexdigest()}, expected {sha256}: "
                "truncated or tampered with, deleted"
            )
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def gunzip(archive: Path, path: Path, *, sha256: str | None) -> None:
    """Unpacks `archive` to `path`, in one step and verified as by `save`."""
    try:
        with gzip.open(archive, "rb") as file:
            save(chunks_of(file), path, sha256=sha256)
    except (gzip.BadGzipFile, EOFError) as error:
        raise DamagedError(f"{archive.name} is not a whole gzip file: {error}") from error


def chunks_of(file: gzip.GzipFile | IO[bytes]) -> Iterator[bytes]:
    """The rest of an open file, a megabyte at a time."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
