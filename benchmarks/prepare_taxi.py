"""Taxi trips to TFRecords: prepare_examples against per-element Beam, no Beam, and one core.

The rows are the sample's, repeated, with small changes to each fare, distance and time.
Per-element Beam follows Beam's documentation: ReadFromText, one tf.train.Example per row,
WriteToTFRecord. It computes no statistics and checks nothing; prepare_examples does both. It runs
on fewer rows, as its time is linear in them. Each run is a process of its own; timing starts after
the imports of Beam, its runner, TensorFlow and the component. The ways alternate; the median of the
rounds is reported.

Then prepare_examples against itself with five times the rows: time should be linear in the rows,
and memory constant. Last, the whole command on the sample's 15,002 rows, with the start of its
process, against a process that imports Beam and TensorFlow and then sleeps for 3 s.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.new_process import run_in_new_process
from benchmarks.support.report import report

ONE_CORE = ("--direct_num_workers=1",)
SAMPLE = Path(".trainyard/cache/taxi")
MEMORY_LIMIT_MB = 1500

TEXTS = ("payment_type", "company")
FLOATS = ("fare", "trip_miles", "trip_seconds")
FLOATS += tuple(
    f"{end}_{kind}" for end in ("pickup", "dropoff") for kind in ("latitude", "longitude")
)


def main() -> None:
    """Run one measurement in this process, or all of them in new processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000, help="for ours (default: 500,000)")
    parser.add_argument(
        "--more-rows", type=int, default=0, help="for ours, too (default: 5 x --rows)"
    )
    parser.add_argument("--their-rows", type=int, default=50_000, help="for per-element Beam")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each way (default: 2)")
    parser.add_argument(
        "--run", nargs=3, metavar=("WHAT", "FILE", "COMPRESSION"), help=argparse.SUPPRESS
    )
    args = parser.parse_args()
    if args.run:
        sys.stdout.write(json.dumps(measure(*args.run)) + "\n")
        return
    args.more_rows = args.more_rows or 5 * args.rows
    with tempfile.TemporaryDirectory(prefix="prepare-taxi-") as folder:
        compare_ways(Path(folder), args.rows, args.their_rows, rounds=args.rounds)
        compare_sizes(Path(folder), args.rows, args.more_rows)
        compare_start(Path(folder))


def compare_ways(folder: Path, rows: int, their_rows: int, *, rounds: int) -> None:
    """Print a comparison with each other way; with a ratio above 1, ours is better."""
    many, few = folder / "many.csv", folder / "few.csv"
    write_rows(many, rows)
    write_rows(few, their_rows)
    for compression in ("gzip", "none"):
        inputs = {"ours": (many, rows), "per_element_beam": (few, their_rows)}
        inputs["without_beam"] = inputs["one_core"] = (many, rows)
        speeds: dict[str, list[float]] = {what: [] for what in inputs}
        for _ in range(rounds):
            for what, (path, count) in inputs.items():
                done = run_in_new_process("prepare_taxi", what, str(path), compression)
                speeds[what].append(count / done["seconds"])
        ours = speeds.pop("ours")
        for what, theirs in speeds.items():
            sizes = {"rows": rows, "their_rows": inputs[what][1]}
            report(f"taxi_{compression}_{what}", ours=ours, theirs=theirs, unit="rows/s", **sizes)
    many.unlink()


def compare_sizes(folder: Path, rows: int, more_rows: int) -> None:
    """Print `more_rows` against `rows`; a ratio of 1 means linear time and constant memory."""
    found = {}
    for count in (rows, more_rows):
        path = folder / f"{count}.csv"
        write_rows(path, count)
        found[count] = run_in_new_process("prepare_taxi", "ours", str(path), "gzip")
        path.unlink()
    more, fewer = found[more_rows], found[rows]
    sizes = {"rows": more_rows, "their_rows": rows}
    speeds = {"ours": more_rows / more["seconds"], "theirs": rows / fewer["seconds"]}
    report("taxi_linear_time", **speeds, unit="rows/s", **sizes)
    memory = {"ours": more["megabytes"], "unit": "MB", "lower_is_better": True}
    report("taxi_flat_memory", **memory, theirs=fewer["megabytes"], **sizes)
    report("taxi_memory_limit", **memory, theirs=MEMORY_LIMIT_MB, rows=more_rows)


def compare_start(folder: Path) -> None:
    """Print the whole command on the sample against the import of Beam and TensorFlow and 3 s."""
    imports = "import apache_beam, tensorflow, time; time.sleep(3)"
    commands = {
        "ours": ["-m", "components.prepare_examples", "--workload", "taxi"],
        "theirs": ["-c", imports],
    }
    commands["ours"] += ["--output-dir", str(folder / "sample"), "--data-dir", str(SAMPLE)]
    seconds = {}
    for who, command in commands.items():
        started = time.perf_counter()
        subprocess.run([sys.executable, *command], capture_output=True, timeout=300, check=True)
        seconds[who] = time.perf_counter() - started
    report("taxi_sample_whole_command", **seconds, unit="s", lower_is_better=True)


def measure(what: str, file: str, compression: str) -> dict[str, float]:
    """Return the seconds of one way, and the peak memory of the process and those it started."""
    import resource

    import components.prepare_examples.prepare  # noqa: F401

    if what != "without_beam":
        import apache_beam.runners.portability.fn_api_runner  # noqa: F401
    if what == "per_element_beam":
        from trainer.runtime import tensorflow_logs

        tensorflow_logs.import_tensorflow()
    ways: dict[str, Callable[..., None]] = {
        "ours": ours,
        "one_core": partial(ours, flags=ONE_CORE),
        "per_element_beam": per_element_beam,
        "without_beam": without_beam,
    }
    with tempfile.TemporaryDirectory(dir=Path(file).parent) as folder:
        started = time.perf_counter()
        ways[what](file, Path(folder, "out"), compression)
        seconds = time.perf_counter() - started
    own, child = (
        resource.getrusage(who).ru_maxrss / 1024  # of the largest child
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return {"seconds": seconds, "megabytes": own + child * (os.cpu_count() or 1)}


def ours(file: str, output: Path, compression: str, *, flags: Sequence[str] = ()) -> None:
    """Run the component, by default on all cores."""
    from components.prepare_examples.prepare import prepare
    from components.prepare_examples.settings.options import PrepareOptions

    options = PrepareOptions(files=[file], compression=compression, beam_options=flags)
    prepare("taxi", output_dir=output, options=options)


def without_beam(file: str, output: Path, compression: str) -> None:
    """Write the same parts in a process per core, without a pipeline."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    from unittest import mock

    from components.prepare_examples.tables import step

    def in_processes(parts: Any, write: Any, finish: Any, **_: Any) -> Any:
        with ProcessPoolExecutor(os.cpu_count(), get_context("fork")) as processes:
            return finish(processes.map(write, parts))

    with mock.patch.object(step, "run_pipeline", in_processes):
        ours(file, output, compression)


def per_element_beam(file: str, output: Path, compression: str) -> None:
    """Run a pipeline of single rows on one core; more Beam workers make it slower here."""
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    runner = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
    suffix = ".gz" if compression == "gzip" else ""
    with beam.Pipeline(options=PipelineOptions([f"--runner={runner}"])) as pipeline:
        _ = (
            pipeline
            | beam.io.ReadFromText(file, skip_header_lines=1)
            | beam.Map(to_example, header_of(file))
            | beam.io.WriteToTFRecord(str(output), file_name_suffix=f".tfrecord{suffix}")
        )


def header_of(file: str) -> list[str]:
    """Return the names of a file's columns."""
    with Path(file).open(encoding="utf-8") as content:
        return next(csv.reader(content))


def to_example(line: str, names: list[str]) -> bytes:
    """Return a row as a serialized tf.train.Example."""
    import tensorflow as tf

    row = dict(zip(names, next(csv.reader([line])), strict=True))
    label = float(row.pop("tips")) > 0.2 * float(row["fare"])
    feature = {"big_tipper": tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))}
    for name, value in row.items():
        if value == "":
            continue
        if name in TEXTS:
            values = tf.train.BytesList(value=[value.encode()])
            feature[name] = tf.train.Feature(bytes_list=values)
        elif name in FLOATS:
            values = tf.train.FloatList(value=[float(value)])
            feature[name] = tf.train.Feature(float_list=values)
        else:
            values = tf.train.Int64List(value=[int(float(value))])
            feature[name] = tf.train.Feature(int64_list=values)
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write_rows(path: Path, num_rows: int) -> None:
    """Write the sample's rows repeatedly, each time with some jitter."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    from components.prepare_examples.raw_data.fetch import fetch

    sample = arrow_csv.read_csv(fetch("taxi", SAMPLE)["data.csv"])
    random = np.random.default_rng(0)
    with path.open("wb") as file:
        for start in range(0, num_rows, len(sample)):
            table = sample.slice(0, min(len(sample), num_rows - start))
            for name, scale in (("fare", 1.0), ("trip_miles", 0.5), ("trip_start_timestamp", 4e6)):
                column = table[name].to_numpy() + np.abs(random.normal(0, scale, len(table)))
                column = column.round(0 if name == "trip_start_timestamp" else 2)
                kind = table.schema.field(name).type
                place = table.column_names.index(name)
                table = table.set_column(place, name, pa.array(column).cast(kind, safe=False))
            options = arrow_csv.WriteOptions(include_header=start == 0, quoting_style="needed")
            arrow_csv.write_csv(table, file, options)


if __name__ == "__main__":
    main()
