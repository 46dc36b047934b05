"""Cost of the input: the training loop against the same steps on one fixed batch.

`memory` gathers each batch from a table in memory, and is compared with the fixed batch. `stream`
reads the examples in eight blocks, as for data larger than memory, and is compared with `memory`:
`decode` in a first epoch, which decodes the files, and `stream` in later ones, which read the rows
that a first one has kept on the disk. Each round runs one epoch of each way.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from benchmarks.support.report import report
from benchmarks.train_single import BATCH_SIZE, NUM_EXAMPLES, STEPS_PER_CALL, Bench
from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import tensorflow as tf  # noqa: E402

from trainer.examples.batches import Batches  # noqa: E402
from trainer.examples.decoded_rows import keep_rows  # noqa: E402
from trainer.examples.stream import BlockTables, Stream, Tables, WholeTable  # noqa: E402
from trainer.examples.tables import Decoder  # noqa: E402
from trainer.strategies.synchronous import SyncDriver  # noqa: E402
from trainer.training.step import TrainStep  # noqa: E402

NUM_BLOCKS = 8
CPU = ["/device:CPU:0"]


class FixedBatches(Batches):
    """Batches of which no rows are drawn."""

    def rows(self, index: tf.Tensor) -> tf.Tensor:
        """Return unused numbers of the right shape."""
        return tf.zeros([tf.size(index), BATCH_SIZE], tf.int64)


class FixedBatchStep(TrainStep):
    """A step whose table is the batch: it is augmented, but no rows are gathered."""

    def contribute(self, *args: Any, **options: Any) -> tf.Tensor:
        """Return the contribution of the table."""
        with mock.patch("trainer.training.step.gather_rows", take_first):
            return super().contribute(*args, **options)


def take_first(table: Any, rows: tf.Tensor) -> Any:
    """Return as many rows of a table as are given, instead of them."""
    return tf.nest.map_structure(lambda column: column[: tf.size(rows)], table)


class Way:
    """A way to feed examples to the steps."""

    def __init__(self, bench: Bench, kind: type[TrainStep], tables: Tables, batches: Batches):
        job: Any = SimpleNamespace(
            batches=batches,
            steps_per_call=STEPS_PER_CALL,
            stop=threading.Event(),
            boundary_after=None,
            may_save=lambda _before, _after: False,
            decides_at_epochs=False,
        )
        self._driver = SyncDriver(job, bench.step(kind, batches=batches), tables, devices=CPU)
        self._next = 0

    def train(self, steps: int) -> float:
        """Train this many more steps and return the examples/s."""
        began, start = time.perf_counter(), self._next
        self._next += steps
        for _ in self._driver.run(start, self._next, {}):
            pass
        return steps * BATCH_SIZE / (time.perf_counter() - began)


def fixed_batch(bench: Bench) -> Any:
    """Return a batch of the first examples."""
    return tf.nest.map_structure(lambda column: column[:BATCH_SIZE], bench.table)


def make_ways(bench: Bench, *, steps_per_block: int) -> dict[str, Way]:
    """Return the ways to compare."""
    sizes = {"size": BATCH_SIZE, "num_examples": bench.split.num_examples}
    whole, blocks = Batches(**sizes), Batches(**sizes, steps_per_block=steps_per_block)
    stream = Stream(split=bench.split, batches=blocks)
    decoder = Decoder(workload=bench.workload, compression="GZIP")
    return {
        "fixed_batch": Way(
            bench, FixedBatchStep, WholeTable(fixed_batch(bench)), FixedBatches(**sizes)
        ),
        "memory": Way(bench, TrainStep, WholeTable(bench.table), whole),
        "decode": Way(bench, TrainStep, BlockTables(stream, decoder), blocks),
        "stream": Way(
            bench, TrainStep, BlockTables(stream, keep_rows(bench.split, decoder)), blocks
        ),
    }


def measure(name: str, *, rounds: int) -> None:
    """Print one line for each comparison; the first round, which traces, is not counted."""
    steps_per_block = NUM_EXAMPLES[name] // (NUM_BLOCKS * BATCH_SIZE)
    with tempfile.TemporaryDirectory() as folder:
        ways = make_ways(Bench(name, Path(folder)), steps_per_block=steps_per_block)
        results = [
            {way: one.train(steps_per_block * NUM_BLOCKS) for way, one in ways.items()}
            for _ in range(rounds + 1)
        ][1:]
    for ours, theirs in (("memory", "fixed_batch"), ("decode", "memory"), ("stream", "memory")):
        report(
            f"input_{name}_{ours}_against_{theirs}",
            ours=[one[ours] for one in results],
            theirs=[one[theirs] for one in results],
            unit="examples/s",
        )


def main() -> None:
    """Measure each workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=sorted(NUM_EXAMPLES), action="append")
    parser.add_argument("--rounds", type=int, default=9, help="counted rounds (default: 9)")
    args = parser.parse_args()
    for name in args.workload or sorted(NUM_EXAMPLES):
        measure(name, rounds=args.rounds)


if __name__ == "__main__":
    main()
