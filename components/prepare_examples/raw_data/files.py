"""Local files: patterns, checksums, and writing in one step after verification."""

import glob
import gzip
import hashlib
import json
import logging
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import translate
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from components.prepare_examples.errors import DamagedError, DataError
from trainer import paths
from trainer.errors import near_path
from trainer.references import workload_name

CHUNK_BYTES = 1 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")
CACHE_DIR = ".trainyard/cache"
IGNORED = {"thumbs.db", "desktop.ini"}  # of Windows, in any folder
MAGIC = re.compile(r"[*?[]")
DIGESTS_FILE = ".digests.json"
# A file that changed this recently may change again within one tick of the file system's clock.
SETTLED_NS = 2_000_000_000

Stamp = list[int]

logger = logging.getLogger(__name__)


def find_files(patterns: Sequence[str]) -> list[str]:
    """Return the files that the patterns match, sorted and without duplicates.

    A folder stands for the files in it and its folders, without those of Windows, and those whose
    names begin with a point or an underscore, as `_SUCCESS`.

    Raises:
        DataError: a pattern matches nothing; names it.
    """
    paths: set[str] = set()
    for pattern in patterns:
        matches = glob.glob(pattern, recursive=True)
        files = {path for path in matches if Path(path).is_file()}
        if not files:
            files = {path for folder in matches for path in _files_in(folder)}
        if not files:
            raise DataError(f"{pattern} matches no file{near_path(pattern)}")
        paths |= files
    return sorted(paths)


def _files_in(folder: str) -> Iterator[str]:
    for path in Path(folder).rglob("*"):
        parts = path.relative_to(folder).parts
        is_hidden = any(part.startswith((".", "_")) for part in parts)
        if path.is_file() and not is_hidden and path.name.lower() not in IGNORED:
            yield str(path)


def find_folder(patterns: Sequence[str]) -> Path:
    """Return the only folder that the patterns match.

    Raises:
        DataError: they match no folder, or several.
    """
    paths = [Path(path) for pattern in patterns for path in sorted(glob.glob(pattern))]
    folders = [path for path in paths if path.is_dir()]
    if len(folders) != 1:
        what = "no folder" if not folders else f"{len(folders)} folders"
        raise DataError(
            f"{', '.join(patterns)} matches {what}; give one folder, with a folder of images for"
            " each class"
        )
    return folders[0]


def sha256_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return the function's result for each item, computed in a thread per core."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(function, items))


def cached_digests(files: Iterable[Path], *, folder: Path) -> dict[Path, tuple[int, str]]:
    """Return size and SHA-256 of each file; `folder` holds the cache of earlier calls.

    A file is read again when its size, times or inode have changed. If the folder cannot be read or
    written, all files are read.
    """
    cache = _read(folder)
    stamps = {path: _stamp(path) for path in files}
    known = {
        path: cache[str(path)][1]
        for path, stamp in stamps.items()
        if str(path) in cache and cache[str(path)][0] == stamp
    }
    unknown = [path for path in stamps if path not in known]
    if unknown:
        now_ns = time.time_ns()
        computed = dict(zip(unknown, in_threads(sha256_of, unknown), strict=True))
        known |= computed
        for path, digest in computed.items():
            stamp = _stamp(path)
            if stamp == stamps[path] and max(stamp[1:3]) < now_ns - SETTLED_NS:
                cache[str(path)] = (stamp, digest)
        kept = {name: entry for name, entry in cache.items() if Path(name).exists()}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=DIGESTS_FILE, dir=folder) as partial:
                file = Path(partial, DIGESTS_FILE)
                file.touch(0o600)
                file.write_text(json.dumps(kept), encoding="utf-8")
                os.replace(file, folder / DIGESTS_FILE)
        except OSError as error:
            logger.info("cannot cache digests: %s", error)
    return {path: (stamp[0], known[path]) for path, stamp in stamps.items()}


def _stamp(path: Path) -> Stamp:
    """Return values that change with a file's content; ctime does even if mtime is set back."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _read(folder: Path) -> dict[str, tuple[Stamp, str]]:
    try:
        content = json.loads((folder / DIGESTS_FILE).read_text())
        return {str(name): (list(stamp), str(digest)) for name, (stamp, digest) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def check_sha256(path: Path, sha256: str, *, name: str) -> None:
    """Delete a file and raise DamagedError if it has another checksum."""
    if (digest := sha256_of(path)) != sha256:
        path.unlink()
        raise DamagedError(
            f"{name} has SHA-256 {digest}, expected {sha256}: truncated or changed, deleted"
        )


def save(chunks: Iterable[bytes], path: Path, *, sha256: str | None) -> None:
    """Write `chunks` to `path` in one step, after checking their SHA-256 (None: unchecked).

    Raises:
        DamagedError: the checksum differs; no file is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("wb") as file:
            file.writelines(chunks)
        if sha256 is not None:
            check_sha256(partial, sha256, name=path.name)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def gunzip(archive: Path, path: Path, *, sha256: str | None) -> None:
    """Unpack `archive` to `path`, as `save` writes it."""
    try:
        with gzip.open(archive, "rb") as file:
            save(chunks_of(file), path, sha256=sha256)
    except (gzip.BadGzipFile, EOFError) as error:
        raise DamagedError(f"{archive.name} is not a complete gzip file: {error}") from error


def chunks_of(file: gzip.GzipFile | IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of an open file in chunks of CHUNK_BYTES."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


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
    raise DataError(
        f"--data-dir {data_dir}: there is no such folder; create it first to download the data into"
        f" it{near_path(path)}"
    )


class Object(NamedTuple):
    """An object; its generation changes with its content."""

    uri: str
    num_bytes: int
    generation: int


def find_objects(pattern: str) -> list[Object]:
    """Return the objects that match a pattern of gs:// or /gcs/, or are in such a folder, sorted.

    Unlike in Python's glob, `*` matches slashes too: the result includes at least the files that
    glob finds in a mounted bucket.

    Raises:
        OSError: Cloud Storage cannot be reached, or refuses.
    """
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    bucket, _, name = paths.uri(pattern).removeprefix(paths.BUCKET_SCHEME).partition("/")
    magic = MAGIC.search(name)
    prefix = name[: magic.start()] if magic else name
    pattern_of_names = name.replace("**/", "*")
    folder = f"{pattern_of_names.rstrip('/')}/*"
    wanted = re.compile(f"{translate(pattern_of_names)}|{translate(folder)}")
    try:
        blobs = connect().list_blobs(bucket, prefix=prefix)
        objects = [
            Object(f"{paths.BUCKET_SCHEME}{bucket}/{blob.name}", blob.size, blob.generation)
            for blob in blobs
            if wanted.match(blob.name) and not blob.name.endswith("/")
        ]
    except (GoogleAPIError, GoogleAuthError) as error:
        raise OSError(
            f"{pattern}: {error}; check the bucket's name, and that this step's account has "
            "roles/storage.objectViewer on it"
        ) from error
    return sorted(objects)


def connect() -> Any:
    """Return a client of Cloud Storage."""
    from google.cloud import storage

    return storage.Client()
