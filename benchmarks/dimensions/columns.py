"""Columns of a table: new, check, a run, and the first prediction of the model."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.support.growth import Cost, Dimension, cost_of

NUM_ROWS = 5_000
NUM_VALUES = 50  # of a category
TRAINYARD = [sys.executable, "-m", "pipelines.cli"]
STOP = [sys.executable, "-m", "vertex_local.cli", "stop", "--root", ".trainyard/vertex"]


def measure_numbers(size: int, folder: Path) -> dict[str, Cost]:
    """Return the costs of a table of so many columns of floats."""
    chance = np.random.default_rng(0)
    columns = {f"n{at}": chance.normal(50, 20, NUM_ROWS) for at in range(size)}
    return _measure(columns, columns["n0"] > 50, folder)  # noqa: PLR2004


def measure_categories(size: int, folder: Path) -> dict[str, Cost]:
    """Return the costs of a table of so many columns of texts."""
    chance = np.random.default_rng(0)
    terms = np.array([f"value {number}" for number in range(NUM_VALUES)])
    columns = {f"c{at}": terms[chance.integers(0, NUM_VALUES, NUM_ROWS)] for at in range(size)}
    return _measure(columns, columns["c0"] > "value 3", folder)


def _measure(columns: dict[str, np.ndarray], label: np.ndarray, folder: Path) -> dict[str, Cost]:
    table = pa.table({**columns, "label": np.where(label, "yes", "no")})
    csv.write_csv(table, folder / "table.csv")
    new = [*TRAINYARD, "new", "wide", "--table", "table.csv", "--label", "label"]
    run = [*TRAINYARD, "run", "wide", "--set", "train.steps=500"]
    run += ["--set", "gate.baseline=constant"]  # of any quality
    costs = {
        "new": cost_of(new, folder=folder),
        "check": cost_of([*TRAINYARD, "check", "wide", "--timeout", "3600"], folder=folder),
        "run": cost_of(run, STOP, folder=folder),
    }
    first, second = _predictions(next((folder / ".trainyard").glob("**/saved_model.pb")).parent)
    return {**costs, "first prediction": first, "second prediction": second}


def _predictions(model: Path) -> tuple[Cost, Cost]:
    command = [sys.executable, "-m", __name__, str(model)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return tuple(map(Cost, json.loads(output.splitlines()[-1])))


def _predict_twice(model: str) -> None:
    from trainer.runtime.tensorflow_logs import import_tensorflow

    import_tensorflow()
    from trainer.config.trust import OWN
    from trainer.serving.export import load_predictor

    predictor, seconds = load_predictor(model, trust=OWN), []
    for _ in range(2):
        started = time.process_time()
        predictor.warm_up()
        seconds.append(time.process_time() - started)
    sys.stdout.write(json.dumps(seconds) + "\n")


NUMBERS = Dimension(
    name="numeric columns", sizes=(30, 300), full_sizes=(300, 3_000), measure=measure_numbers
)
CATEGORIES = Dimension(
    name="category columns", sizes=(30, 300), full_sizes=(30, 300), measure=measure_categories
)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    _predict_twice(sys.argv[1])
