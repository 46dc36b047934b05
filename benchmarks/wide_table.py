"""A table of 50 columns to TFRecords: prepare_examples against per-element Beam.

Per-element Beam reads lines, makes one tf.train.Example of each row and writes them with
WriteToTFRecord, gzipped, on one core: more of Beam's workers make it slower. It computes no
statistics and checks nothing. prepare_examples does both, in a thread per core. Per-element Beam
gets fewer rows, because its speed does not depend on their number.

    python -m benchmarks.wide_table --rows 1000000 --their-rows 50000
"""

import argparse
import csv
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.support.new_process import run_in_new_process
from benchmarks.support.report import report

NUMBERS = tuple(f"number_{place:02d}" for place in range(25))
WHOLE = tuple(f"whole_{place:02d}" for place in range(10))
TEXTS = tuple(f"text_{place:02d}" for place in range(12))
DATES = ("started", "ended")
LABEL = "label"
WORKLOAD = f"""\
from trainer.workloads import Binary, Category, Number, Table, Timestamp
workload = Table(
    [
        *(Number(name) for name in {NUMBERS}),
        *(Category(name, low=0, high=99) for name in {WHOLE}),
        *(Category(name) for name in {TEXTS}),
        *(Timestamp(name, format="%Y-%m-%d") for name in {DATES}),
    ],
    label=Binary("{LABEL}", positive="yes"),
)
"""
PIECE = 20_000
MISSING, POSITIVE = 0.05, 0.4  # shares


def main() -> None:
    """Print one comparison as a JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--their-rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--run", nargs=3, metavar=("WAY", "FILE", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        sys.stdout.write(json.dumps(measure(*args.run)) + "\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "project").mkdir()
        Path(folder, "project", "workload.py").write_text(WORKLOAD, encoding="utf-8")
        sizes = {"ours": args.rows, "per_element": args.their_rows}
        for way, rows in sizes.items():
            write_rows(Path(folder, f"{way}.csv"), rows)
        speeds: dict[str, list[float]] = {way: [] for way in sizes}
        for _ in range(args.rounds):
            for way, rows in sizes.items():
                file = str(Path(folder, f"{way}.csv"))
                seconds = run_in_new_process("wide_table", way, file, folder)
                speeds[way].append(rows / seconds)
    ours, theirs = speeds.values()
    more = {"rows": args.rows, "load": os.getloadavg()[0]}
    report("wide_table_per_element_beam", ours=ours, theirs=theirs, unit="rows/s", **more)


def measure(way: str, file: str, folder: str) -> float:
    """Return the seconds of one way."""
    import apache_beam.runners.portability.fn_api_runner  # noqa: F401

    import components.prepare_examples.prepare  # noqa: F401

    if way == "per_element":
        from trainer.runtime import tensorflow_logs

        tensorflow_logs.import_tensorflow()
    ways = {"ours": ours, "per_element": per_element}
    with tempfile.TemporaryDirectory(dir=folder) as output:
        started = time.perf_counter()
        ways[way](file, Path(folder, "project"), Path(output, "out"))
        return time.perf_counter() - started


def ours(file: str, project: Path, output: Path) -> None:
    """Run the component on all cores."""
    from components.prepare_examples.prepare import prepare
    from components.prepare_examples.settings.options import PrepareOptions

    prepare(str(project), output_dir=output, options=PrepareOptions(files=(file,)))


def per_element(file: str, project: Path, output: Path) -> None:
    """Run a pipeline of single rows on one core."""
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    del project
    runner = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
    with Path(file).open(encoding="utf-8") as content:
        names = next(csv.reader(content))
    with beam.Pipeline(options=PipelineOptions([f"--runner={runner}"])) as pipeline:
        _ = (
            pipeline
            | beam.io.ReadFromText(file, skip_header_lines=1)
            | beam.Map(to_example, names)
            | beam.io.WriteToTFRecord(str(output), file_name_suffix=".tfrecord.gz")
        )


def to_example(line: str, names: list[str]) -> bytes:
    """Return a row as a serialized tf.train.Example."""
    import datetime

    import tensorflow as tf

    feature = {}
    for name, value in zip(names, next(csv.reader([line])), strict=True):
        if value == "":
            continue
        if name.startswith("number"):
            floats = tf.train.FloatList(value=[float(value)])
            feature[name] = tf.train.Feature(float_list=floats)
        elif name.startswith("text"):
            texts = tf.train.BytesList(value=[value.encode()])
            feature[name] = tf.train.Feature(bytes_list=texts)
        else:
            if name in DATES:
                moment = datetime.datetime.strptime(value, "%Y-%m-%d")
                whole = int(moment.replace(tzinfo=datetime.UTC).timestamp())
            else:
                whole = int(value == "yes" if name == LABEL else value)
            feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[whole]))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write_rows(path: Path, num_rows: int) -> None:
    """Write rows of random numbers, categories and dates; a twentieth of the numbers is missing."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    chance = np.random.default_rng(0)
    terms = np.array([f"value {number}" for number in range(200)])
    days = np.array(
        [f"20{year:02d}-{month:02d}-15" for year in range(25) for month in range(1, 13)]
    )
    with path.open("wb") as file:
        for start in range(0, num_rows, PIECE):
            count = min(PIECE, num_rows - start)
            columns = {
                name: pa.array(
                    chance.normal(50, 20, count).round(3), mask=chance.random(count) < MISSING
                )
                for name in NUMBERS
            }
            columns |= {name: pa.array(chance.integers(0, 100, count)) for name in WHOLE}
            columns |= {name: pa.array(terms[chance.integers(0, 200, count)]) for name in TEXTS}
            columns |= {name: pa.array(days[chance.integers(0, 300, count)]) for name in DATES}
            columns[LABEL] = pa.array(np.where(chance.random(count) < POSITIVE, "yes", "no"))
            options = arrow_csv.WriteOptions(include_header=start == 0, quoting_style="needed")
            arrow_csv.write_csv(pa.table(columns), file, options)


if __name__ == "__main__":
    main()
