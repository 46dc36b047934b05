"""Throughput of the trainer's step against Keras `fit`, in turns.

Each way has a process of its own, with the threads that it has in practice. Model, batch size,
optimizer, augmentation and files are the same; the examples are synthetic, in the workloads' own
format. `fit` runs in three ways: with defaults (`fit`), with the input of public samples (one
tf.io.parse_single_example per record), and tuned (`tuned_fit`: batches gathered from a table in
memory, no XLA, many steps in one call).
"""

import argparse
import contextlib
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.report import report
from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

from trainer.config.train_config import TrainConfig  # noqa: E402
from trainer.examples.batches import Batches  # noqa: E402
from trainer.examples.manifest import read_manifest  # noqa: E402
from trainer.examples.tables import read_table  # noqa: E402
from trainer.training.facts import find_facts  # noqa: E402
from trainer.training.model.devices import count_parts, open_devices, split_cpu  # noqa: E402
from trainer.training.model.embeddings import add  # noqa: E402
from trainer.training.model.flat_model import FlatModel, build_model  # noqa: E402
from trainer.training.model.objective import Objective  # noqa: E402
from trainer.training.optimizers.fused import make_optimizer  # noqa: E402
from trainer.training.optimizers.rules import UpdateRules  # noqa: E402
from trainer.training.optimizers.schedule import Schedule  # noqa: E402
from trainer.training.parameters import Parameters  # noqa: E402
from trainer.training.step import TrainStep  # noqa: E402
from trainer.workloads import load_workload  # noqa: E402

WAYS = ("ours", "fit", "per_example_fit", "tuned_fit")
BATCH_SIZE = 128
STEPS_PER_CALL = 50
NUM_EXAMPLES = {"mnist": 10_000, "taxi": 50_000}
NUM_SHARDS = 4


# Trains a number of steps and returns their seconds.
Way = Callable[[int], float]


class _Timer(keras.callbacks.Callback):
    """Timer of the steps after the first call; the filling of a shuffle buffer is not counted."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        del logs
        if batch + 1 == STEPS_PER_CALL:
            self._began = time.perf_counter()
        self.seconds = time.perf_counter() - getattr(self, "_began", 0)


class Bench:
    """Examples of one workload in a folder, and the ways to train on them."""

    def __init__(self, name: str, folder: Path):
        if not (folder / "manifest.json").exists():
            write_examples(name, folder)
        manifest = read_manifest(str(folder), workload=name)
        self.split = manifest.splits["train"]
        self.config = TrainConfig(workload=name, examples_dir=str(folder))
        self.workload = find_facts(load_workload(name), self.split, compression="GZIP")
        self.table = read_table(self.split, self.workload, compression="GZIP")

    def step(
        self, kind: type[TrainStep] = TrainStep, *, batches: Batches | None = None
    ) -> TrainStep:
        """Return the step of a job with the model's own recipe."""
        model = FlatModel(build_model(self.workload, self.config))
        recipe = self.config.recipe()
        parameters = Parameters(
            model.read_weights(),
            devices=["/device:CPU:0"],
            rules=UpdateRules(
                optimizer=make_optimizer(recipe),
                schedule=Schedule(peak=recipe.learning_rate, total_steps=100_000),
            ),
            state=model.read_state(),
        )
        batches = batches or Batches(size=BATCH_SIZE, num_examples=self.split.num_examples)
        objective = Objective(self.workload, model, batch_size=BATCH_SIZE)
        return kind(self.workload, model, objective, parameters, batches)

    def ours(self, num_parts: int) -> Way:
        """Return training by the trainer's step, many steps in one call."""
        step = self.step()

        def contribute(table: Any, index: tf.Tensor, rows: tf.Tensor) -> Any:
            numbers = range(num_parts)
            return add(
                [step.contribute(table, index, rows, part=n, num_parts=num_parts) for n in numbers]
            )

        @tf.function(autograph=False)
        def run(table: Any, start: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
            return step.run(lambda index, rows: contribute(table, index, rows), start, count)

        def train(steps: int) -> float:
            began = time.perf_counter()
            for start in range(0, steps, STEPS_PER_CALL):
                count = min(STEPS_PER_CALL, steps - start)
                run(self.table, tf.constant(start), tf.constant(count)).numpy()
            return time.perf_counter() - began

        return train

    def fit(self, dataset: tf.data.Dataset, **options: Any) -> Way:
        """Return training by Keras' `fit` on the batches of a dataset."""
        model = build_model(self.workload, self.config)
        model.compile(
            keras.optimizers.Adam(self.config.recipe().learning_rate),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            **options,
        )
        batches = dataset.prefetch(tf.data.AUTOTUNE)

        def train(steps: int) -> float:
            timer = _Timer()
            total = STEPS_PER_CALL + steps
            model.fit(batches, steps_per_epoch=total, verbose=0, shuffle=False, callbacks=[timer])
            return timer.seconds

        return train

    def records(self, *, single: bool) -> tf.data.Dataset:
        """Return batches from the files, parsed per record as in public samples, or per batch."""
        files = tf.data.TFRecordDataset(self.split.paths, "GZIP", num_parallel_reads=NUM_SHARDS)
        shuffled = files.repeat().shuffle(10_000)
        if single:
            parsed = shuffled.map(self._parse_one, tf.data.AUTOTUNE).batch(BATCH_SIZE, True)
        else:
            parsed = shuffled.batch(BATCH_SIZE, True).map(self.workload.parse, tf.data.AUTOTUNE)
        encoded = parsed.map(lambda x, y: (self.workload.encode(x), y), tf.data.AUTOTUNE)
        return encoded.map(self._augment, tf.data.AUTOTUNE)

    def gathered(self) -> tf.data.Dataset:
        """Return batches gathered from a table in memory."""
        size = self.split.num_examples
        rows = tf.data.Dataset.range(size).shuffle(size).repeat().batch(BATCH_SIZE, True)
        features, labels = self.table
        return rows.map(
            lambda at: self._augment(
                {name: tf.gather(column, at) for name, column in features.items()},
                tf.gather(labels, at),
            ),
            tf.data.AUTOTUNE,
        )

    def _parse_one(self, record: tf.Tensor) -> Any:
        features, label = self.workload.parse(record[tf.newaxis])
        return tf.nest.map_structure(lambda column: column[0], (features, label))

    def _augment(self, features: Any, labels: tf.Tensor) -> Any:
        if self.workload.num_noise:
            noise = tf.random.uniform([BATCH_SIZE, self.workload.num_noise])
            features = self.workload.augment(features, noise)
        return self.workload.preprocess(features), labels


def make_way(way: str, name: str, folder: Path) -> Way:
    """Return one of `WAYS` to train."""
    if way == "ours":
        num_parts = open_cores(name)  # before TensorFlow does anything else
        return Bench(name, folder).ours(num_parts)
    bench = Bench(name, folder)
    if way == "tuned_fit":
        return bench.fit(bench.gathered(), jit_compile=False, steps_per_execution=STEPS_PER_CALL)
    return bench.fit(bench.records(single=way == "per_example_fit"))


def open_cores(name: str) -> int:
    """Set up the threads as the trainer does; return the number of parts of a batch."""
    recipe = load_workload(name).recipe_of()
    num_parts = count_parts(
        "single", part_size=recipe.part_size, batch_size=BATCH_SIZE, num_trainers=1
    )
    return len(split_cpu(num_parts) if num_parts else open_devices("single", cpu_devices=1))


def run_rounds(way: str, name: str, folder: Path) -> None:
    """Train as many steps as each line of the input says; print the seconds."""
    train = make_way(way, name, folder)
    for line in sys.stdin:
        sys.stdout.write(f"{train(int(line))}\n")
        sys.stdout.flush()


def compare(name: str, folder: Path, *, steps: int, rounds: int) -> dict[str, list[float]]:
    """Return the examples/s of each way in each round; a round runs each way once.

    The first round, which traces the graphs, is not counted.
    """
    speeds: dict[str, list[float]] = {way: [] for way in WAYS}
    command = [sys.executable, "-m", "benchmarks.train_single", "--workload", name]
    with contextlib.ExitStack() as stack:
        processes = {
            way: stack.enter_context(
                subprocess.Popen(
                    [*command, "--way", way, "--folder", str(folder)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for way in WAYS
        }
        for _ in range(rounds + 1):
            for way, process in processes.items():
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(f"{steps}\n")
                process.stdin.flush()
                speeds[way].append(steps * BATCH_SIZE / float(process.stdout.readline()))
    return {way: values[1:] for way, values in speeds.items()}


def write_examples(name: str, folder: Path) -> None:
    """Write synthetic examples in the workload's format."""
    make = {"mnist": make_digit, "taxi": make_trip}[name]
    random = np.random.default_rng(0)
    count = NUM_EXAMPLES[name] // NUM_SHARDS
    shards = []
    for index in range(NUM_SHARDS):
        path = folder / f"train-{index:05d}-of-{NUM_SHARDS:05d}.tfrecord.gz"
        with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
            for _ in range(count):
                writer.write(make(random))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        shards.append({"file": path.name, "num_examples": count, "sha256": digest})
    splits = {"train": {"num_examples": count * NUM_SHARDS, "shards": shards}}
    manifest = {"workload": name, "compression": "GZIP", "splits": splits}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def make_digit(random: np.random.Generator) -> bytes:
    """Return an Example of 784 pixels."""
    return make_example(image=random.bytes(784), label=int(random.integers(10)))


def make_trip(random: np.random.Generator) -> bytes:
    """Return an Example of a trip; some values are missing, as in the city's data."""
    values = {
        "trip_miles": float(random.gamma(1, 3)),
        "fare": float(random.gamma(2, 6)),
        "trip_seconds": float(random.integers(0, 90)) * 60,
        "pickup_latitude": 41.8 + float(random.integers(40)) / 400,
        "pickup_longitude": -87.7 + float(random.integers(40)) / 400,
        "dropoff_latitude": 41.8 + float(random.integers(40)) / 400,
        "dropoff_longitude": -87.7 + float(random.integers(40)) / 400,
        "trip_start_hour": int(random.integers(24)),
        "trip_start_day": int(random.integers(1, 8)),
        "trip_start_month": int(random.integers(1, 13)),
        "pickup_community_area": int(random.integers(1, 78)),
        "dropoff_community_area": int(random.integers(1, 78)),
        "payment_type": random.choice([b"Cash", b"Credit Card", b"Unknown"]),
        "company": b"Company %d" % random.integers(60),
    }
    kept = {name: value for name, value in values.items() if random.random() > 0.05}  # noqa: PLR2004
    return make_example(**kept, big_tipper=int(random.random() < 0.25))  # noqa: PLR2004


def make_example(**values: Any) -> bytes:
    """Return a serialized tf.train.Example of scalar values."""
    kinds = {int: "int64_list", float: "float_list"}
    example = tf.train.Example()
    for name, value in values.items():
        kind = kinds.get(type(value), "bytes_list")
        getattr(example.features.feature[name], kind).value.append(value)
    return example.SerializeToString()


def measure(name: str, *, steps: int, rounds: int) -> None:
    """Print one comparison for each way of `fit`."""
    with tempfile.TemporaryDirectory() as folder:
        write_examples(name, Path(folder))
        speeds = compare(name, Path(folder), steps=steps, rounds=rounds)
    for way in WAYS[1:]:
        title = f"train_{name}_against_{way}"
        report(title, ours=speeds["ours"], theirs=speeds[way], unit="examples/s")


def main() -> None:
    """Measure each workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=sorted(NUM_EXAMPLES), action="append")
    parser.add_argument("--steps", type=int, default=100, help="steps in a round (default: 100)")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default: 5)")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)  # of one process
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.way:
        run_rounds(args.way, args.workload[0], args.folder)
        return
    for name in args.workload or sorted(NUM_EXAMPLES):
        measure(name, steps=args.steps, rounds=args.rounds)


if __name__ == "__main__":
    main()
