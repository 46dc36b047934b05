"""Brings a workload's raw files into a folder, each verified by SHA-256 before it is used."""

import logging
from pathlib import Path

from components.prepare_examples.errors import DamagedError, DataError, RouteError
from components.prepare_examples.raw_data.files import gunzip, in_threads, sha256_of
from components.prepare_examples.raw_data.source_file import SourceFile
from components.prepare_examples.raw_data.sources import Source, source_of

TABLES = ("*.parquet", "*.csv", "*.csv.gz")
OWN_TABLES = "bigquery-"

logger = logging.getLogger(__name__)


def fetch(workload: str, data_dir: str | Path, *, trust_files: bool = False) -> dict[str, Path]:
    """Makes sure that a workload's raw files are in `data_dir`; answers their paths by name.

    Files already there, raw or gzipped under their official names, are taken when their checksum
    is right, and moved aside when it is not. What is missing is fetched, by the official route
    first.

    Args:
        workload: a key of SOURCES.
        data_dir: the cache folder; made if it is not there. Once it is full nothing is fetched.
        trust_files: take the files as they are, unverified, and fetch nothing. For data of your
            own in the same format.

    Raises:
        DataError: a file is missing and no route has it; says which to put where by hand. Or the
            folder holds tables, which would not be read.
    """
    return fetch_source(source_of(workload), Path(data_dir), trust_files=trust_files)


def fetch_source(source: Source, folder: Path, *, trust_files: bool = False) -> dict[str, Path]:
    """`fetch` for a source that need not be registered."""
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_tables(source, folder)
    if trust_files:
        _take_unverified(source, folder)
    else:
        _take_or_bring(source, folder)
    return {file.name: folder / file.name for file in source.files}


def _refuse_tables(source: Source, folder: Path) -> None:
    """Refuse a folder with tables of a user's own, which would be passed over silently."""
    known = {name for file in source.files for name in (file.name, file.gzip_name)}
    for pattern in TABLES:
        for path in sorted(folder.glob(pattern)):
            if path.name not in known and not path.name.startswith(OWN_TABLES):
                raise DataError(
                    f"{path} would not be read, but {source.title} instead; name your own tables "
                    f"(prepare.files={folder / pattern}), or take them out of the folder"
                )


def _take_unverified(source: Source, folder: Path) -> None:
    for file in source.files:
        raw, archive = folder / file.name, folder / file.gzip_name
        if not raw.exists() and archive.exists():
            gunzip(archive, raw, sha256=None)
        if not raw.exists():
            raise DataError(
                f"{raw} is missing; trust_files takes files as they are and fetches none: "
                "put it there, or leave trust_files out"
            )
    logger.warning("%s: the files in %s are used unverified (trust_files)", source.title, folder)


def _take_or_bring(source: Source, folder: Path) -> None:
    taken = in_threads(lambda file: _take(file, folder), source.files)
    missing = [file for file, is_there in zip(source.files, taken, strict=True) if not is_there]
    reasons = []
    for route in source.routes:
        if not missing:
            return
        logger.info("%s: fetching %d files from %s", source.title, len(missing), route.name)
        try:
            route.bring(missing, folder)
        except RouteError as error:
            logger.warning("%s: %s", route.name, error)
            reasons.append(f"{route.name}: {error}")
        missing = [file for file in missing if not (folder / file.name).exists()]
    if missing:
        raise DataError(_by_hand(source, missing, folder, reasons))


def _take(file: SourceFile, folder: Path) -> bool:
    """Is the raw file there and right, itself or after unpacking its archive?"""
    raw, archive = folder / file.name, folder / file.gzip_name
    if _is_right(raw, file.sha256):
        return True
    if file.gzip_sha256 is None or not _is_right(archive, file.gzip_sha256):
        return False
    try:
        gunzip(archive, raw, sha256=file.sha256)
    except DamagedError as error:
        logger.warning("%s", error)
        return False
    return True


def _is_right(path: Path, sha256: str) -> bool:
    if not path.exists():
        return False
    found = sha256_of(path)
    if found != sha256:
        aside = path.with_name(f"{path.name}.sha256-{found[:12]}")  # it may be the user's only copy
        logger.warning(
            "%s has SHA-256 %s, expected %s: truncated, tampered with or another file; moved to %s",
            path,
            found,
            sha256,
            aside.name,
        )
        path.replace(aside)
    return found == sha256


def _by_hand(source: Source, missing: list[SourceFile], folder: Path, reasons: list[str]) -> str:
    lines = [f"{source.title} could not be fetched."]
    lines += [f"  {reason}" for reason in reasons]
    lines.append(f"Put these files into {folder.absolute()}, under these names, and run again:")
    for file in missing:
        lines.append(f"  {file.name}  SHA-256 {file.sha256}")
        if file.gzip_sha256 is not None:
            lines.append(f"    or {file.gzip_name}  SHA-256 {file.gzip_sha256}")
    if source.archive is not None:
        lines.append(f"  or all in {source.archive.name}  SHA-256 {source.archive.sha256}")
    return "\n".join(lines)
