"""Training over networks of several delays and rates, and a model that predicts the step's time.

Each replica runs on a machine of its own (`benchmarks.support.network`; needs root), pinned to one
of this machine's cores. Models are a dense layer of 0.1, 1 and 10 million weights. The model of a
step's time is fitted on every second measurement and predicts the others; then it draws the
throughput of up to 64 replicas. Measurements are kept in `.trainyard/bench/network.jsonl`: an
interrupted run continues, and `--anew` begins again.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.support import dense
from benchmarks.support.clusters import CACHE, Shape, scratch, train_in
from benchmarks.support.network import Link, missing, network

MEASUREMENTS = CACHE / "network.jsonl"
BATCH_SIZE = 64
STEPS = {0.1: 600, 1.0: 300, 10.0: 60}
DELAYS = (0.1e-3, 0.5e-3, 2e-3)
RATES = (1e9, 10e9)
STRATEGIES = ("multi_worker_mirrored", "parameter_server")
NUM_CORES = 2


@dataclass(frozen=True)
class Point:
    """A job on a network; times are in seconds, rates in bits per second."""

    strategy: str
    workers: int
    weights: float
    """Millions."""
    delay: float
    rate: float


def main() -> None:
    """Measure what is missing, fit the model and print its errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anew", action="store_true", help="forget earlier measurements")
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES))
    arguments = parser.parse_args()
    if lack := missing():
        sys.stderr.write(f"no networks here: {lack}\n")
        return
    if arguments.anew:
        MEASUREMENTS.unlink(missing_ok=True)
    folder = dense.examples()
    for strategy in arguments.strategies:
        points = [
            Point(strategy, *values)
            for values in itertools.product((2, 4), dense.UNITS, DELAYS, RATES)
        ]
        found = dict(measured(points, folder))
        report(strategy, found)


def measured(points: list[Point], folder: Path) -> Iterator[tuple[Point, float]]:
    """Yield each point with its seconds per step; measure those that no earlier run has."""
    earlier = {}
    if MEASUREMENTS.exists():
        lines = [json.loads(line) for line in MEASUREMENTS.read_text().splitlines()]
        earlier = {Point(**line["point"]): line["seconds"] for line in lines}
    for number, point in enumerate(points, start=1):
        if point not in earlier:
            earlier[point] = measure(point, folder)
            with MEASUREMENTS.open("a") as file:
                line = {"point": asdict(point), "seconds": earlier[point]}
                file.write(json.dumps(line) + "\n")
            sys.stderr.write(f"{number}/{len(points)} {point}: {1e3 * earlier[point]:.2f} ms\n")
        yield point, earlier[point]


def measure(point: Point, folder: Path) -> float:
    """Return the seconds of a step in the second half of a job."""
    is_async = point.strategy == "parameter_server"
    counts = {"chiefs": int(is_async), "workers": point.workers, "ps": int(is_async)}
    cores = {f"worker/{index}": [index % NUM_CORES] for index in range(point.workers)}
    steps = STEPS[point.weights] * (point.workers if is_async else 1)
    batch_size = BATCH_SIZE * (1 if is_async else point.workers)
    flags = [f"--steps={steps}", f"--batch-size={batch_size}", "--steps-per-call=10"]
    flags += ["--log-every-steps=20", f"--model.units={dense.UNITS[point.weights]}"]
    shape = Shape(**counts, cores=cores)
    link = Link(point.delay, point.rate)
    with scratch() as out, network(shape.replicas, link) as machines:
        result = train_in(
            out, shape, *flags, workload=str(folder), examples_dir=folder, machines=machines
        )
    return batch_size / result.examples_per_second


def terms(point: Point) -> NDArray[np.float64]:
    """Return the factors of each coefficient in the seconds of a worker's step.

    The coefficients, in order: computing, and computing for a million weights; a message; a
    message's delay; the bytes on the wire; and copying them.
    """
    workers, megabytes = point.workers, 4 * point.weights
    shares = max(1, workers / NUM_CORES)  # of a core
    if point.strategy == "multi_worker_mirrored":
        num_messages = 2 * (workers - 1)
        sent = megabytes * num_messages / workers
    else:
        num_messages, sent = 2, 2 * megabytes
    wire = 8e6 * sent / point.rate
    return np.array(
        [shares, shares * point.weights, num_messages, num_messages * point.delay, wire, sent]
    )


def predict(coefficients: NDArray[np.float64], point: Point) -> float:
    """Return the seconds per step: of all workers, or of any of them if they do not wait.

    The link of a parameter server is shared by the workers.
    """
    *_, wire, _ = factors = terms(point)
    seconds = float(factors @ coefficients)
    if point.strategy == "multi_worker_mirrored":
        return seconds
    return max(seconds / point.workers, wire / 2)


def fit(found: dict[Point, float]) -> NDArray[np.float64]:
    """Return the coefficients, none negative, with the smallest relative errors."""
    from scipy.optimize import least_squares

    points = list(found)
    seconds = np.array([found[point] for point in points])

    def errors(logarithms: NDArray[np.float64]) -> NDArray[np.float64]:
        predicted = [predict(np.exp(logarithms), point) for point in points]
        return np.log(np.array(predicted) / seconds)

    start = np.log(np.array([2e-3, 2e-3, 1e-4, 1.0, 1.0, 1e-4]))
    return np.exp(least_squares(errors, start, bounds=(-20, 3)).x)


def report(strategy: str, found: dict[Point, float]) -> None:
    """Print the coefficients, and the errors of the half that the fit has not seen."""
    points = list(found)
    coefficients = fit({point: found[point] for point in points[::2]})
    errors = {point: predict(coefficients, point) / found[point] - 1 for point in points[1::2]}
    for point, error in errors.items():
        line = {**asdict(point), "ms": 1e3 * found[point], "error": error}
        sys.stderr.write(json.dumps(line) + "\n")
    worst = max(map(abs, errors.values()))
    mean = float(np.mean(np.abs(list(errors.values()))))
    names = ("computing", "per_million", "message", "delays", "wire", "copying")
    fitted = dict(zip(names, map(float, coefficients), strict=True))
    line = {"name": f"network {strategy}", "mean_error": mean, "worst_error": worst, **fitted}
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
