"""Fetching of a workload's raw files into a folder, each verified by SHA-256."""

import logging
from pathlib import Path

from components.prepare_examples.declarations import source_of
from components.prepare_examples.errors import DamagedError, DataError, RouteError
from components.prepare_examples.raw_data.files import gunzip, in_threads, sha256_of
from components.prepare_examples.raw_data.routes import fetch_by
from trainer.workloads.declarations.sources import (
    Addresses,
    FetchFunction,
    Source,
    SourceFile,
)

TABLES = ("*.parquet", "*.csv", "*.csv.gz")
OWN_TABLES = "bigquery-"

logger = logging.getLogger(__name__)


def fetch(workload: str, data_dir: str | Path, *, trust_files: bool = False) -> dict[str, Path]:
    """Return the paths of a workload's raw files in `data_dir`, by name; fetch missing ones.

    Existing files, raw or gzipped under their official names, are used if their checksum matches
    and renamed if not. Missing files are fetched, from the official address first. With
    `trust_files` files are used unverified and none is fetched, for other data in the same format.

    Raises:
        DataError: a file is missing and cannot be fetched, with what to do by hand; or the folder
            holds tables, which would not be read.
    """
    return fetch_source(source_of(workload), Path(data_dir), trust_files=trust_files)


def fetch_source(source: Source, folder: Path, *, trust_files: bool = False) -> dict[str, Path]:
    """Return the paths of a source's raw files, as `fetch`."""
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_tables(source, folder)
    if trust_files:
        _use_unverified(source, folder)
    else:
        _fetch_missing(source, folder)
    return {file.name: folder / file.name for file in source.files}


def _refuse_tables(source: Source, folder: Path) -> None:
    """Raise DataError for a folder with a user's own tables, which would be ignored silently."""
    known = {name for file in source.files for name in (file.name, file.gzip_name)}
    for pattern in TABLES:
        for path in sorted(folder.glob(pattern)):
            if path.name not in known and not path.name.startswith(OWN_TABLES):
                raise DataError(
                    f"{path} would be ignored, and {source.title} read instead; to read your own "
                    f"tables set prepare.files={folder / pattern}, else move them elsewhere"
                )


def _use_unverified(source: Source, folder: Path) -> None:
    for file in source.files:
        raw, archive = folder / file.name, folder / file.gzip_name
        if not raw.exists() and archive.exists():
            gunzip(archive, raw, sha256=None)
        if not raw.exists():
            raise DataError(
                f"{raw} is missing; trust_files uses existing files and fetches none: "
                "add the file, or do not set trust_files"
            )
    logger.warning("%s: using the files in %s unverified (trust_files)", source.title, folder)


def _fetch_missing(source: Source, folder: Path) -> None:
    are_there = in_threads(lambda file: _has_file(file, folder), source.files)
    missing = [file for file, is_found in zip(source.files, are_there, strict=True) if not is_found]
    reasons = []
    addresses = [Addresses()] if any(file.url for file in source.files) else []
    written = [FetchFunction(source.fetch)] if source.fetch else []
    routes = [*addresses, *source.routes, *written]
    for number, route in enumerate(routes, start=1):
        if not missing:
            break
        logger.info("%s: fetching %d files from %s", source.title, len(missing), route)
        try:
            fetch_by(route, missing, folder)
        except RouteError as error:
            then = "".join(f"; trying {other}" for other in routes[number:][:1])
            logger.warning("%s: %s%s", route, error, then)
            reasons.append(f"{route}: {error}")
        missing = [file for file in missing if not (folder / file.name).exists()]
    if missing:
        raise DataError(_instructions(source, missing, folder, reasons))


def _has_file(file: SourceFile, folder: Path) -> bool:
    """Return whether the folder has the verified raw file, unpacking its archive if needed."""
    raw, archive = folder / file.name, folder / file.gzip_name
    if _is_verified(raw, file.sha256):
        return True
    if file.gzip_sha256 is None or not _is_verified(archive, file.gzip_sha256):
        return False
    try:
        gunzip(archive, raw, sha256=file.sha256)
    except DamagedError as error:
        logger.warning("%s", error)
        return False
    return True


def _is_verified(path: Path, sha256: str) -> bool:
    """Return whether a file has the checksum; rename one that has another."""
    if not path.exists():
        return False
    digest = sha256_of(path)
    if digest != sha256:
        aside = path.with_name(f"{path.name}.sha256-{digest[:12]}")  # kept: maybe the only copy
        logger.warning(
            "%s has SHA-256 %s, expected %s: truncated, changed or another file; renamed to %s",
            path,
            digest,
            sha256,
            aside.name,
        )
        path.replace(aside)
    return digest == sha256


def _instructions(
    source: Source, missing: list[SourceFile], folder: Path, reasons: list[str]
) -> str:
    lines = [f"{source.title} could not be fetched."]
    lines += [f"  {reason}" for reason in reasons]
    lines.append(f"Put these files into {folder.absolute()}, under these names, and run again:")
    for file in missing:
        lines.append(f"  {file.name}  SHA-256 {file.sha256}")
        if file.gzip_sha256 is not None:
            lines.append(f"    or {file.gzip_name}  SHA-256 {file.gzip_sha256}")
    if source.archive is not None:
        lines.append(f"  or all of them in {source.archive.name}  SHA-256 {source.archive.sha256}")
    return "\n".join(lines)
