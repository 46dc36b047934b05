"""Training of a large embedding on a parameter server: by rows against as one dense vector.

Of each pair of jobs one has a subclass of Keras' Embedding, which stays in the flat vector of
weights. Both run in turn on the same machine, which all replicas share.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.support.clusters import Shape, scratch, train_in
from benchmarks.support.records import write_examples
from benchmarks.support.report import report

NUM_ROWS, NUM_IDS, NUM_EXAMPLES, BATCH_SIZE = 1_000_000, 4, 20_000, 256
# Steps of a job, and steps in a report; the first report is not counted.
STEPS = {"rows": (200, 50), "dense": (12, 3)}
OPTIMIZERS = ("adagrad", "sgd", "momentum", "adam", "adamw")
WORKLOAD = f'''
import keras

from trainer.workloads import Binary, Records, Values


class Dense(keras.layers.Embedding):
    """An embedding that is part of the flat vector, because its `call` may do anything."""

    def call(self, inputs):
        return super().call(inputs)


def model(inputs, *, size: int = 16, is_dense: bool = False, optimizer: str = "adagrad"):
    kind = Dense if is_dense else keras.layers.Embedding
    x = keras.layers.Flatten()(kind({NUM_ROWS}, size)(inputs["ids"]))
    x = keras.layers.Dense(32, activation="relu")(x)
    net = keras.Model(inputs, keras.layers.Dense(1)(x))
    made = {{
        "adagrad": keras.optimizers.Adagrad(0.01),
        "sgd": keras.optimizers.SGD(0.01),
        "momentum": keras.optimizers.SGD(0.01, momentum=0.9),
        "adam": keras.optimizers.Adam(0.01),
        "adamw": keras.optimizers.AdamW(0.01, weight_decay=0.01, use_ema=True),
    }}
    net.compile(made[optimizer], keras.losses.BinaryCrossentropy(from_logits=True))
    return net


workload = Records(
    {{"ids": Values("int64", [{NUM_IDS}])}}, label=Binary("clicked"), model=model
)
'''


def main() -> None:
    """Print the steps per second of each pair of jobs, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--optimizers", nargs="+", default=["adagrad", "adam"], choices=OPTIMIZERS)
    parser.add_argument("--sizes", nargs="+", type=int, default=[16])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=2, help="runs of each; default: %(default)s")
    arguments = parser.parse_args()
    with scratch() as parent:
        folder = parent / "clicks"
        write_clicks(folder)
        for optimizer in arguments.optimizers:
            for size in arguments.sizes:
                for workers in arguments.workers:
                    _compare(folder, optimizer, size, workers, rounds=arguments.rounds)


def write_clicks(folder: Path) -> None:
    """Write the workload's file, and examples of ids drawn by Zipf's law and a click."""
    folder.mkdir()
    (folder / "workload.py").write_text(WORKLOAD)
    random = np.random.default_rng(0)
    ids = {
        split: (random.zipf(1.2, (count, NUM_IDS)) * 7919) % NUM_ROWS
        for split, count in (("train", NUM_EXAMPLES), ("eval", BATCH_SIZE))
    }
    write_examples(
        folder,
        {
            split: [{"ids": row, "clicked": row.sum(keepdims=True) % 2} for row in rows]
            for split, rows in ids.items()
        },
    )


def measure(folder: Path, *, way: str, optimizer: str, size: int, workers: int) -> float:
    """Return the steps per second of a job, without those of its first report."""
    steps, interval = STEPS[way]
    flags = [f"--steps={steps}", f"--batch-size={BATCH_SIZE}", f"--steps-per-call={interval}"]
    flags += [f"--log-every-steps={interval}", f"--model.size={size}"]
    flags += [f"--model.optimizer={optimizer}", f"--model.is_dense={way == 'dense'}"]
    with scratch() as out:
        shape = Shape(workers=workers, ps=1)
        result = train_in(out, shape, *flags, workload=str(folder), examples_dir=folder)
    lines = [line for line in result.lines if line["split"] == "train"]
    seconds = sum(
        after["step_ms"] * (after["step"] - before["step"]) / 1000
        for before, after in pairwise(lines)
    )
    return (lines[-1]["step"] - lines[0]["step"]) / seconds


def _compare(folder: Path, optimizer: str, size: int, workers: int, *, rounds: int) -> None:
    speeds: dict[str, list[float]] = {way: [] for way in STEPS}
    for _ in range(rounds):
        for way, measured in speeds.items():
            measured.append(
                measure(folder, way=way, optimizer=optimizer, size=size, workers=workers)
            )
    report(
        f"{NUM_ROWS:,} x {size} embedding, {optimizer}, {workers} workers: rows against dense",
        ours=speeds["rows"],
        theirs=speeds["dense"],
        unit="steps/s",
    )


if __name__ == "__main__":
    main()
