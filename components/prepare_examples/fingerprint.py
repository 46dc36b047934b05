"""A fingerprint of raw data: what caches of prepared examples are keyed by."""

import hashlib
import json
import logging
from collections.abc import Sequence
from glob import escape
from pathlib import Path
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.formats import IMAGES
from components.prepare_examples.options import PrepareOptions
from components.prepare_examples.publish import local_path
from components.prepare_examples.raw_data.buckets import find_objects
from components.prepare_examples.raw_data.digests import remembered_digests
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.sources import data_folder, source_of
from components.prepare_examples.statistics.drift import statistics_file
from components.prepare_examples.tables.bigquery import table_modified
from components.prepare_examples.tables.files import find_files
from trainer import paths

logger = logging.getLogger(__name__)

Facts = list[Any]


def fingerprint(
    workload: str, *, data_dir: str | Path = "", options: PrepareOptions | None = None
) -> str:
    """Return a text that changes when anything changes that `prepare` would read.

    Of local files these are names, sizes and SHA-256; of objects in a bucket their generations; of
    BigQuery the time of the table's last change; of a workload's own files their pinned SHA-256,
    for files of another checksum are never used.

    Raises:
        DataError: a pattern matches nothing, or a file is missing; names it.
        OSError: Cloud Storage or BigQuery cannot be reached, or refuses.
    """
    options = options or PrepareOptions()
    folder = local_path(data_folder(workload, data_dir))
    facts = {
        "raw": _raw_facts(workload, folder, options),
        "schema": _file_facts([escape(options.schema)], folder) if options.schema else [],
        "baseline": _file_facts([escape(_baseline(options))], folder) if options.baseline else [],
    }
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    logger.info("input %s: %d files or tables", digest, sum(map(len, facts.values())))
    return f"sha256:{digest}"


def check_unchanged(
    before: str, workload: str, *, data_dir: str | Path, options: PrepareOptions
) -> None:
    """Check that the input is still what it was when the step's cache key was made.

    Raises:
        DataError: it has changed, so the examples would be cached under the wrong key.
    """
    if before and before != fingerprint(workload, data_dir=data_dir, options=options):
        raise DataError(
            "the input has changed while the examples were prepared; run again when nobody "
            "writes to it"
        )


def _raw_facts(workload: str, folder: Path, options: PrepareOptions) -> Facts:
    source = source_of(workload)
    if options.source == "bigquery" and workload not in IMAGES:
        return [table_modified(options.project)]
    if options.files and workload not in IMAGES:
        return _file_facts(options.files, folder)
    if options.trust_files:
        fetched = fetch(workload, folder, trust_files=True)  # unpacks, and names what is missing
        return _file_facts([escape(str(path)) for path in fetched.values()], folder)
    return [[file.name, file.sha256] for file in source.files]


def _file_facts(patterns: Sequence[str], folder: Path) -> Facts:
    """Return name, size, and digest or generation of each file that the patterns match."""
    local = [str(local_path(pattern)) for pattern in patterns]  # names a bucket without a mount
    if not any(map(paths.is_in_bucket, patterns)):
        files = [Path(path) for path in find_files(local)]
        digests = remembered_digests(files, folder=folder)
        return [[str(path), *digests[path]] for path in files]
    facts: Facts = []
    for pattern in patterns:
        if not paths.is_in_bucket(pattern):
            facts += _file_facts([pattern], folder)
            continue
        found = find_objects(pattern)
        if not found:
            raise DataError(f"{pattern} matches no file")
        facts += [list(one) for one in found]
    return sorted(facts)


def _baseline(options: PrepareOptions) -> str:
    if paths.is_in_bucket(options.baseline):
        return str(statistics_file(local_path(options.baseline)))
    return str(statistics_file(options.baseline))
