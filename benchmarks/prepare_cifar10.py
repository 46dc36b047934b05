"""CIFAR-10 to TFRecords: prepare_examples against per-element Beam and against loops without Beam.

Per-element Beam reads the batches, yields images, makes a tf.train.Example of each and writes them
with WriteToTFRecord. The plain loop makes the same examples and writes them with
tf.io.TFRecordWriter, in two processes. The lean loop encodes the batches with prepare_examples' own
encoder and writes the records with tf.io.TFRecordWriter, in two threads, and once in two processes:
the least work without Beam. The loops have prepare_examples' gzip settings and do nothing else;
prepare_examples also checks the labels, computes digests of the raw files and the shards (SHA-256,
CRC32C), and computes statistics.

Each run is a process of its own; timing starts after the imports of Beam, its runner, TensorFlow
and the component. The ways alternate; the median of the rounds is reported.
"""

import argparse
import json
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.support.new_process import run_in_new_process
from benchmarks.support.report import report

CACHE = Path(".trainyard/cache/cifar10")
FILES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
RECORD_BYTES = 3073


def main() -> None:
    """Run one measurement in this process, or all of them in new processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2, help="runs of each way (default: 2)")
    parser.add_argument("--images", type=int, default=60_000, help="of 60,000 (default: all)")
    hidden = {"nargs": 3, "help": argparse.SUPPRESS}
    parser.add_argument("--run", metavar=("WHAT", "FOLDER", "COMPRESSION"), **hidden)
    args = parser.parse_args()
    if args.run:
        sys.stdout.write(json.dumps(measure(*args.run)) + "\n")
        return
    with tempfile.TemporaryDirectory(prefix="prepare-cifar10-") as folder:
        num_images = write_batches(Path(folder), args.images)
        for compression in ("none", "gzip"):
            compare(Path(folder), compression, num_images, args.rounds)


def compare(folder: Path, compression: str, num_images: int, rounds: int) -> None:
    """Print a comparison with each other way; with a ratio above 1, ours is better."""
    seconds: dict[str, list[float]] = {what: [] for what in WAYS}
    for _ in range(rounds):
        for what, found in seconds.items():
            found.append(run_in_new_process("prepare_cifar10", what, str(folder), compression))
    speeds = {what: [num_images / one for one in found] for what, found in seconds.items()}
    ours = speeds.pop("ours")
    for what, theirs in speeds.items():
        report(f"cifar10_{compression}_{what}", ours=ours, theirs=theirs, unit="images/s")


def measure(what: str, folder: str, compression: str) -> float:
    """Return the seconds of one way in this process."""
    import apache_beam.runners.portability.fn_api_runner  # noqa: F401
    import tensorflow_metadata.proto.v0.statistics_pb2  # noqa: F401

    import components.prepare_examples.prepare  # noqa: F401
    from trainer.runtime import tensorflow_logs

    tensorflow_logs.import_tensorflow()
    with tempfile.TemporaryDirectory(dir=folder) as output:
        started = time.perf_counter()
        WAYS[what](Path(folder), Path(output, "out"), compression)
        return time.perf_counter() - started


def ours(folder: Path, output: Path, compression: str) -> None:
    """Run the component on all cores."""
    from components.prepare_examples.prepare import prepare
    from components.prepare_examples.settings.options import PrepareOptions

    options = PrepareOptions(trust_files=True, compression=compression)
    prepare("cifar10", output_dir=output, data_dir=folder, options=options)


def plain_loop(folder: Path, output: Path, compression: str) -> None:
    """Write one tf.train.Example per image, in two processes."""
    with ProcessPoolExecutor(2, get_context("fork")) as pool:
        loop(pool, folder, output, compression, encode=examples)


def lean_loop(folder: Path, output: Path, compression: str) -> None:
    """Write records of the component's own encoder, in two threads."""
    with ThreadPoolExecutor(2) as pool:
        loop(pool, folder, output, compression, encode=encoded)


def loop(
    pool: Executor,
    folder: Path,
    output: Path,
    compression: str,
    *,
    encode: Callable[[Path], Iterable[bytes]],
) -> None:
    """Write each batch with TensorFlow's writer."""
    output.mkdir()
    jobs = [
        pool.submit(write_records, encode, folder / file, output / file, compression)
        for file in FILES
    ]
    for job in jobs:
        job.result()


def write_records(
    encode: Callable[[Path], Iterable[bytes]], path: Path, output: Path, compression: str
) -> None:
    """Write one file with TensorFlow's writer."""
    import tensorflow as tf

    options = tf.io.TFRecordOptions(compression_type="")
    if compression == "gzip":
        options = tf.io.TFRecordOptions(
            compression_type="GZIP",
            compression_level=1,
            compression_strategy=zlib.Z_RLE,
            mem_level=9,
        )
    with tf.io.TFRecordWriter(str(output), options) as writer:
        for record in encode(path):
            writer.write(record)


def examples(path: Path) -> Iterator[bytes]:
    """Return the examples of a batch, encoded one by one."""
    return map(to_example, images_of(str(path)))


def encoded(path: Path) -> Iterator[bytes]:
    """Yield the examples of a batch, encoded many at a time."""
    from components.prepare_examples.tfrecords.image_encoder import encode_images
    from components.prepare_examples.tfrecords.records import HEAD_BYTES, TAIL_BYTES

    records = np.fromfile(path, np.uint8).reshape(-1, RECORD_BYTES)
    for start in range(0, len(records), 256):
        batch = records[start : start + 256]
        rows = encode_images(batch[:, 1:].reshape(-1, 3, 1024), batch[:, 0])
        yield from (row.tobytes() for row in rows[:, HEAD_BYTES:-TAIL_BYTES])


def lean_processes(folder: Path, output: Path, compression: str) -> None:
    """Write records of the component's own encoder, in two processes."""
    with ProcessPoolExecutor(2, get_context("fork")) as pool:
        loop(pool, folder, output, compression, encode=encoded)


def per_element(folder: Path, output: Path, compression: str) -> None:
    """Run a pipeline of single images on one core; more Beam workers make it slower here."""
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    runner = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
    suffix = ".gz" if compression == "gzip" else ""
    with beam.Pipeline(options=PipelineOptions([f"--runner={runner}"])) as pipeline:
        _ = (
            pipeline
            | beam.Create([str(folder / file) for file in FILES])
            | beam.FlatMap(images_of)
            | beam.Map(to_example)
            | beam.io.WriteToTFRecord(str(output), file_name_suffix=f".tfrecord{suffix}")
        )


def images_of(path: str) -> Iterator[tuple[bytes, int]]:
    """Yield the images of a batch with their labels."""
    for record in np.fromfile(path, np.uint8).reshape(-1, RECORD_BYTES):
        yield record[1:].reshape(3, 32, 32).transpose(1, 2, 0).tobytes(), int(record[0])


def to_example(item: tuple[bytes, int]) -> bytes:
    """Return an image as a serialized tf.train.Example."""
    import tensorflow as tf

    image, label = item
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write_batches(folder: Path, num_images: int) -> int:
    """Write the first images of each official batch; return their number."""
    from components.prepare_examples.raw_data.fetch import fetch

    paths = fetch("cifar10", CACHE)
    share = num_images // len(FILES)
    for file in FILES:
        with paths[file].open("rb") as content:
            (folder / file).write_bytes(content.read(share * RECORD_BYTES))
    return share * len(FILES)


WAYS = {
    "ours": ours,
    "per_element": per_element,
    "plain_loop": plain_loop,
    "lean_loop": lean_loop,
    "lean_processes": lean_processes,
}

if __name__ == "__main__":
    main()
