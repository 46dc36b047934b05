"""Fingerprints of raw data, used as cache keys of prepared examples."""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from glob import escape, glob
from pathlib import Path
from typing import Any

from components.prepare_examples.declarations import declared, source_of
from components.prepare_examples.errors import DataError
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import (
    cached_digests,
    data_folder,
    find_files,
    find_objects,
)
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.statistics.drift import statistics_file
from components.prepare_examples.tables.reading.bigquery import table_modified
from trainer import paths
from trainer.workloads import Table

logger = logging.getLogger(__name__)

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
        "schema": _file_facts([escape(options.schema_file)], folder) if options.schema_file else [],
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
