"""Fingerprints of raw data, used as cache keys of prepared examples."""

import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from glob import escape, glob
from pathlib import Path
from typing import Any

from components.prepare_examples.declarations import declared, source_of
from components.prepare_examples.errors import DataError
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import (
    data_folder,
    find_files,
    find_objects,
    in_threads,
    sha256_of,
)
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.statistics.drift import statistics_file
from components.prepare_examples.tables.reading.bigquery import table_modified
from trainer import paths
from trainer.workloads import Table

logger = logging.getLogger(__name__)

CACHE_FILE = ".digests.json"
# A file that changed this recently may change again within one tick of the file system's clock.
SETTLED_NS = 2_000_000_000

Stamp = list[int]
Cache = dict[str, tuple[Stamp, str]]
Facts = list[Any]
MAX_LISTED = 1000  # files by name; of more, only the fingerprint is compared


@dataclass(frozen=True, kw_only=True)
class InputData:
    """Raw data of a run.

    Attributes:
        fingerprint: a text that changes when any input of `prepare` changes.
        files: name, size, and digest or generation of each raw file; of BigQuery, the table with
            the time of its last change.
    """

    fingerprint: str
    files: Facts

    @property
    def listed(self) -> Facts | None:
        """The files, None if they are too many to be listed."""
        return self.files if len(self.files) <= MAX_LISTED else None

    def to_json(self, options: PrepareOptions) -> str:
        """Return the content of `input.json`, with the options' days of rows."""
        content = {
            "fingerprint": self.fingerprint,
            "num_files": len(self.files),
            "files": self.listed,
            "dates": list(options.dates),
        }
        return json.dumps(content, indent=1) + "\n"


def read_input(
    workload: str, *, data_dir: str | Path = "", options: PrepareOptions | None = None
) -> InputData:
    """Return the raw data of a run, whose fingerprint changes when any input of `prepare` changes.

    It covers names, sizes and SHA-256 of local files, generations of objects in a bucket, the time
    of the last change of BigQuery's table, and the pinned SHA-256 of a workload's own files (files
    with other checksums are never used).

    Raises:
        DataError: a pattern matches nothing, or a file is missing; names it.
        OSError: Cloud Storage or BigQuery cannot be reached, or refuses.
    """
    options = options or PrepareOptions()
    folder = data_folder(workload, data_dir)
    baseline = options.baseline and str(statistics_file(local_path(options.baseline)))
    facts = {
        "raw": _raw_facts(workload, folder, options),
        "schema": _file_facts([escape(options.schema)], folder) if options.schema else [],
        "baseline": _file_facts([escape(baseline)], folder) if baseline else [],
    }
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    logger.info("input %s: %d files or tables", digest, sum(map(len, facts.values())))
    return InputData(fingerprint=f"sha256:{digest}", files=facts["raw"])


def check_unchanged(
    before: str, workload: str, *, data_dir: str | Path, options: PrepareOptions
) -> InputData:
    """Check that the input has not changed since the step's cache key was computed; return it.

    Raises:
        DataError: it has, so the examples would be cached under the wrong key.
    """
    current = read_input(workload, data_dir=data_dir, options=options)
    if before and before != current.fingerprint:
        raise DataError(
            "the input changed while the examples were prepared; run again when no program "
            "writes to it"
        )
    return current


def _raw_facts(workload: str, folder: str | Path, options: PrepareOptions) -> Facts:
    if options.source == "bigquery" and isinstance(table := declared(workload), Table):
        return [table_modified(table, options.project)]
    if options.files:
        return _file_facts(options.files, folder)
    source = source_of(workload)
    if options.trust_files:
        # Unpacks archives, and checks that all files exist.
        fetched = fetch(workload, local_path(folder), trust_files=True)
        return _file_facts([escape(str(path)) for path in fetched.values()], folder)
    return [[file.name, file.sha256] for file in source.files]


def _file_facts(patterns: Sequence[str], folder: str | Path) -> Facts:
    """Return name, size, and digest or generation of each file that the patterns match."""
    facts: Facts = []
    files: set[Path] = set()
    for pattern in patterns:
        if not paths.is_in_bucket(pattern):
            files.update(_files_of(str(local_path(pattern))))
            continue
        objects = find_objects(pattern)
        if not objects:
            raise DataError(f"{pattern} matches no file")
        facts += map(list, objects)
    digests = cached_digests(sorted(files), folder=local_path(folder)) if files else {}
    local = [[str(path), *digest] for path, digest in digests.items()]
    return sorted([*facts, *local]) if facts else local


def _files_of(pattern: str) -> list[Path]:
    """Return the files that a pattern matches, or all files in the folders that it matches."""
    folders = [Path(path) for path in glob(pattern) if Path(path).is_dir()]
    if not folders:
        return list(map(Path, find_files([pattern])))
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


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
            with tempfile.TemporaryDirectory(prefix=CACHE_FILE, dir=folder) as partial:
                file = Path(partial, CACHE_FILE)
                file.touch(0o600)
                file.write_text(json.dumps(kept), encoding="utf-8")
                os.replace(file, folder / CACHE_FILE)
        except OSError as error:
            logger.info("cannot cache digests: %s", error)
    return {path: (stamp[0], known[path]) for path, stamp in stamps.items()}


def _stamp(path: Path) -> Stamp:
    """Return values that change with a file's content; ctime does even if mtime is set back."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _read(folder: Path) -> Cache:
    try:
        content = json.loads((folder / CACHE_FILE).read_text())
        return {str(name): (list(stamp), str(digest)) for name, (stamp, digest) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
