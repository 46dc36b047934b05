"""Batch prediction against the evaluation: rows per second of the same TFRecords.

Ours writes the predictions of all rows as JSON lines. Theirs is what the evaluation does
with them: read_held_out checks the files, predicts them and reads the examples to show. Both use
the same model, which nobody has trained, in the same process; the ways alternate, and the median of
the rounds is reported.

Then batch prediction of the same rows as CSV and as JSON lines.

    python -m benchmarks.batch_predict --rows 200000
"""

import argparse
import csv
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.support.clusters import scratch
from benchmarks.support.report import report
from components.evaluate.held_out import read_held_out
from components.prepare_examples.tfrecords.image_encoder import encode_images
from components.prepare_examples.tfrecords.records import record_file
from components.prepare_examples.tfrecords.table_encoder import encode_rows, frame_records
from pipelines.predictions.predict import load_model, predict_files
from trainer.runtime.tensorflow_logs import import_tensorflow

NUM_SHARDS = 2
NUM_PIXELS = 784
COMPANIES = tuple(f"Company {number}" for number in range(60))
PAYMENTS = ("Cash", "Credit Card", "No Charge", "Unknown")


def main() -> None:
    """Compare both ways for each workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000, help="taxi; default: %(default)s")
    parser.add_argument("--images", type=int, default=60_000, help="MNIST; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    arguments = parser.parse_args()
    import_tensorflow()
    with scratch() as folder:
        trips = _trips(arguments.rows)
        for name, count, write in (
            ("taxi", arguments.rows, lambda path, rows: _write_trips(path, trips, rows)),
            ("mnist", arguments.images, _write_images),
        ):
            examples = folder / name
            _write_examples(examples, name, count, write)
            model = _export(name, examples, folder / f"{name}-model")
            _compare(name, model, examples, count, arguments.rounds)
        _time_rows(str(folder / "taxi-model"), trips, folder)


def _compare(name: str, model: str, examples: Path, count: int, rounds: int) -> None:
    ours, theirs = [], []
    inputs, out = [str(examples / "test-*")], examples.parent / f"{name}-out"
    predictor = load_model(model)
    for _ in range(1 + rounds):
        ours.append(_speed(count, lambda: predict_files(model, inputs=inputs, output_dir=out)))
        theirs.append(_speed(count, lambda: read_held_out(str(examples), predictor)))
    # Without the first round, which imports Beam and traces the graphs.
    report(f"batch_predict_{name}", ours=ours[1:], theirs=theirs[1:], unit="rows/s")


def _time_rows(model: str, trips: dict[str, pa.Array], folder: Path) -> None:
    """Report CSV and JSON lines against TFRecords."""
    table = pa.table(trips)
    records = str(folder / "taxi" / "test-*")
    lines, rows = folder / "rows.jsonl", folder / "rows.csv"
    with lines.open("w") as file, rows.open("w", newline="") as sheet:
        wanted = [name for name in table.column_names if name != "big_tipper"]
        writer = csv.DictWriter(sheet, [*wanted, "trip_start_timestamp"], restval=1_400_000_400)
        writer.writeheader()
        for row in table.select(wanted).to_pylist():
            file.write(json.dumps(row) + "\n")
            writer.writerow({**row, "trip_start_timestamp": 1_400_000_400})
    speeds = {}
    for name, path in (("tfrecord", records), ("csv", str(rows)), ("jsonl", str(lines))):
        summary = predict_files(model, inputs=[path], output_dir=folder / "rows-out")
        speeds[name] = summary["rows_per_second"]
    for name in ("csv", "jsonl"):
        report(
            f"batch_predict_taxi_{name}_against_tfrecord",
            ours=speeds[name],
            theirs=speeds["tfrecord"],
            unit="rows/s",
        )


def _speed(count: int, work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def _trips(count: int) -> dict[str, pa.Array]:
    random = np.random.default_rng(1)

    def floats(low: float, high: float) -> pa.Array:
        return pa.array(random.uniform(low, high, count).round(2).astype(np.float32))

    def wholes(low: int, high: int) -> pa.Array:
        return pa.array(random.integers(low, high, count))

    def texts(values: tuple[str, ...]) -> pa.Array:
        return pa.array(np.array(values)[random.integers(len(values), size=count)])

    places = {f"{end}_latitude": floats(41.6, 42) for end in ("pickup", "dropoff")}
    places |= {f"{end}_longitude": floats(-87.9, -87.5) for end in ("pickup", "dropoff")}
    areas = {f"{end}_community_area": wholes(1, 78) for end in ("pickup", "dropoff")}
    return {
        **{"fare": floats(3, 60), "trip_miles": floats(0, 20), "trip_seconds": floats(60, 4000)},
        **places,
        **areas,
        **{"trip_start_hour": wholes(0, 24), "trip_start_day": wholes(1, 8)},
        **{"trip_start_month": wholes(1, 13), "payment_type": texts(PAYMENTS)},
        **{"company": texts(COMPANIES), "big_tipper": wholes(0, 2)},
    }


def _write_trips(path: Path, trips: dict[str, pa.Array], rows: range) -> None:
    part = {name: column.slice(rows.start, len(rows)) for name, column in trips.items()}
    with record_file(path, compression="GZIP") as file:
        file.write(frame_records(encode_rows(part)))


def _write_images(path: Path, rows: range) -> None:
    random = np.random.default_rng(rows.start)
    images = random.integers(0, 256, (len(rows), 1, NUM_PIXELS), np.uint8)
    with record_file(path, compression="GZIP") as file:
        file.write(encode_images(images, random.integers(0, 10, len(rows))).tobytes())


def _write_examples(folder: Path, workload: str, count: int, write: Any) -> None:
    folder.mkdir()
    shards = []
    for number in range(NUM_SHARDS):
        path = folder / f"test-{number:05d}-of-{NUM_SHARDS:05d}.tfrecord.gz"
        rows = range(count * number // NUM_SHARDS, count * (number + 1) // NUM_SHARDS)
        write(path, rows)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        shards.append({"file": path.name, "num_examples": len(rows), "sha256": digest})
    split = {"num_examples": count, "shards": shards}
    manifest = {"workload": workload, "compression": "GZIP", "splits": {"test": split}}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def _export(name: str, examples: Path, folder: Path) -> str:
    """Export an untrained model that is adapted to some examples."""
    import tensorflow as tf

    from trainer.serving.export import export_model
    from trainer.workloads import load_workload

    workload = load_workload(name)
    if workload.learns:
        file = str(next(iter(sorted(examples.glob("test-*")))))
        records = next(iter(tf.data.TFRecordDataset(file, "GZIP").batch(5000)))
        features, _ = workload.parse(records)
        workload = workload.adapt({key: column.numpy() for key, column in features.items()})
    export_model(workload.build_model(), workload, str(folder))
    return str(folder)


if __name__ == "__main__":
    main()
