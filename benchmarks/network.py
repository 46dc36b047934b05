"""Training over networks of several delays and rates, and a model that predicts the step's time.

Each replica runs on a machine of its own (`benchmarks.support.network`; needs root), pinned to one
of this machine's cores. Models are a dense layer of 0.1, 1 and 10 million weights. The model of a
step's time is fitted on half of the measurements and predicts the others; then it draws the
speed-up of up to 64 workers. Measurements are kept in `.trainyard/bench/network.jsonl`: an
interrupted run continues, and `--anew` begins again.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.support import dense
from benchmarks.support.clusters import CACHE, Shape, scratch, train_in
from benchmarks.support.network import Link, missing, network
from components.plan_training.speed import Costs, Job, Network, batches_per_second, speed_up
from trainer.cluster.roles import is_asynchronous

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEASUREMENTS = CACHE / "network.jsonl"
BATCH_SIZE = 64
STEPS = {0.1: 600, 1.0: 300, 10.0: 60}
WORKERS = (2, 4)
LATENCIES = (0.1e-3, 0.5e-3, 2e-3)
BANDWIDTHS = (1e9, 10e9)
STRATEGIES = ("multi_worker_mirrored", "parameter_server")
NUM_CORES = 2
LOCAL = 100e9  # bits per second: of a replica that has nobody to talk to
# Of the picture: batch sizes, numbers of workers, and the lines of models and networks.
DRAWN_BATCHES = (BATCH_SIZE, 1536)
DRAWN = (1, 2, 4, 8, 16, 32, 64)
COLOURS = {0.1: "#4c78a8", 1.0: "#f58518", 10.0: "#e45756"}
NETWORKS = (("-", 0.1e-3, 10e9), ("--", 0.5e-3, 1e9))


@dataclass(frozen=True)
class Point:
    """A job on a network: one-way latency in seconds, bandwidth in bits per second."""

    strategy: str
    workers: int
    weights: float
    """Millions."""
    latency: float
    bandwidth: float


def main() -> None:
    """Measure what is missing, fit the model and print its errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anew", action="store_true", help="forget earlier measurements")
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES))
    parser.add_argument("--picture", type=Path, default=CACHE / "network.png", help="%(default)s")
    arguments = parser.parse_args()
    if lack := missing():
        sys.stderr.write(f"no networks here: {lack}\n")
        return
    if arguments.anew:
        MEASUREMENTS.unlink(missing_ok=True)
    folder = dense.examples()
    singles = [Point("single", 1, weights, 0.0, LOCAL) for weights in dense.UNITS]
    alone = {one.weights: seconds for one, seconds in measured(singles, folder)}
    fitted = {}
    for strategy in arguments.strategies:
        points = [
            Point(strategy, *values)
            for values in itertools.product(WORKERS, dense.UNITS, LATENCIES, BANDWIDTHS)
        ]
        found = dict(measured(points, folder))
        fitted[strategy] = fit({one: found[one] for one in found if is_fitted(one)}, alone)
        report(fitted[strategy], found, alone)
    draw(fitted, alone, arguments.picture)
    sys.stderr.write(f"drawn in {arguments.picture}\n")


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
    is_async = is_asynchronous(point.strategy)
    if point.strategy == "single":
        counts, cores = {"chiefs": 1}, {"chief/0": [0]}
    else:
        counts = {"chiefs": int(is_async), "workers": point.workers, "ps": int(is_async)}
        cores = {f"worker/{index}": [index % NUM_CORES] for index in range(point.workers)}
    steps = STEPS[point.weights] * (point.workers if is_async else 1)
    batch_size = BATCH_SIZE * (1 if is_async else point.workers)
    flags = [f"--steps={steps}", f"--batch-size={batch_size}", "--steps-per-call=10"]
    flags += ["--log-every-steps=20", f"--model.units={dense.UNITS[point.weights]}"]
    shape = Shape(**counts, cores=cores)
    link = Link(point.latency, point.bandwidth)
    with scratch() as out, network(shape.replicas, link) as machines:
        result = train_in(
            out, shape, *flags, workload=str(folder), examples_dir=folder, machines=machines
        )
    return batch_size / result.examples_per_second


def predict(costs: Costs, point: Point, *, alone: float) -> float:
    """Return the seconds of a step of all workers, or of any of them if they do not wait.

    A step of one replica takes `alone` seconds. Replicas that share a core take turns to compute,
    to handle a message and to copy.
    """
    shares = max(1, point.workers / NUM_CORES)
    shared = replace(costs, message=shares * costs.message, copying=shares * costs.copying)
    job = job_of(point, computing=shares * alone)
    per_second = batches_per_second(job, network_of(point), shared)
    return (1 if job.is_asynchronous else point.workers) / per_second


def job_of(point: Point, *, computing: float) -> Job:
    """Return the job of a point, for the model."""
    return Job(
        is_asynchronous=is_asynchronous(point.strategy),
        workers=point.workers,
        servers=1,
        weights=1e6 * point.weights,
        computing=computing,
    )


def network_of(point: Point) -> Network:
    """Return the network of a point, for the model."""
    return Network(latency=point.latency, bandwidth=point.bandwidth)


def fit(found: Mapping[Point, float], alone: Mapping[float, float]) -> Costs:
    """Return the costs, none negative, with the smallest relative errors."""
    from scipy.optimize import least_squares

    seconds = np.array(list(found.values()))

    def errors(logarithms: NDArray[np.float64]) -> NDArray[np.float64]:
        costs = costs_of(np.exp(logarithms))
        predicted = [predict(costs, point, alone=alone[point.weights]) for point in found]
        return np.log(np.array(predicted) / seconds)

    start = np.log(np.array([1e-4, 1.0, 1.0, 1e-3]))
    return costs_of(np.exp(least_squares(errors, start, bounds=(-20, 3)).x))


def costs_of(values: Iterable[float]) -> Costs:
    """Return costs from their values, in the order of the fields."""
    names = [field.name for field in fields(Costs)]
    return Costs(**dict(zip(names, map(float, values), strict=True)))


def is_fitted(point: Point) -> bool:
    """Return whether the fit sees a point: half of them, like one colour of a chess board."""
    grid = (WORKERS, list(dense.UNITS), LATENCIES, BANDWIDTHS)
    values = (point.workers, point.weights, point.latency, point.bandwidth)
    return sum(axis.index(value) for axis, value in zip(grid, values, strict=True)) % 2 == 0


def report(costs: Costs, found: Mapping[Point, float], alone: Mapping[float, float]) -> None:
    """Print the costs, and the errors of the half of the points that the fit has not seen."""
    unseen = [point for point in found if not is_fitted(point)]
    errors = []
    for point in unseen:
        predicted = predict(costs, point, alone=alone[point.weights])
        errors.append(predicted / found[point] - 1)
        line = {**asdict(point), "ms": 1e3 * found[point], "predicted_ms": 1e3 * predicted}
        sys.stderr.write(json.dumps({**line, "error": errors[-1]}) + "\n")
    line = {
        "name": f"network {unseen[0].strategy}",
        "mean_error": float(np.mean(np.abs(errors))),
        "worst_error": float(np.max(np.abs(errors))),
        **asdict(costs),
    }
    sys.stdout.write(json.dumps(line) + "\n")


def draw(fitted: Mapping[str, Costs], alone: Mapping[float, float], picture: Path) -> None:
    """Draw the predicted speed-up of up to 64 workers, each with a core of its own."""
    sys.path.append(f"{sys.prefix}/bench")  # the packages that only benchmarks need
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        *(len(DRAWN_BATCHES), len(fitted)),
        figsize=(9, 7),
        layout="constrained",
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for row, batch_size in zip(axes, DRAWN_BATCHES, strict=True):
        computing = {one: alone[one] * batch_size / BATCH_SIZE for one in alone}
        for axis, (strategy, costs) in zip(row, fitted.items(), strict=True):
            draw_speeds(axis, strategy, costs, computing)
            title = f"{strategy}, {batch_size:,} examples a step (predicted)"
            axis.set_title(title, loc="left", fontsize=10)
    for axis in axes[-1]:
        axis.set_xlabel("workers")
    for row in axes:
        row[0].set_ylabel("times one")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    figure.savefig(picture, dpi=100)


def draw_speeds(
    axis: "Axes", strategy: str, costs: Costs, computing: Mapping[float, float]
) -> None:
    """Draw a line for each model and network; a step of one replica takes `computing` seconds."""
    axis.plot(DRAWN, DRAWN, color="0.7", linestyle=":", label="as many times as workers")
    for (weights, colour), (line, latency, bandwidth) in itertools.product(
        COLOURS.items(), NETWORKS
    ):
        points = [Point(strategy, number, weights, latency, bandwidth) for number in DRAWN]
        speeds = [
            speed_up(job_of(one, computing=computing[weights]), network_of(one), costs)
            for one in points
        ]
        label = f"{weights:g} million weights, {1000 * latency:g} ms, {bandwidth / 1e9:g} Gbit/s"
        axis.plot(DRAWN, speeds, color=colour, linestyle=line, label=label)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    axis.set_xticks(DRAWN, list(map(str, DRAWN)))
    axis.set_yticks(DRAWN, list(map(str, DRAWN)))
    axis.set_ylim(0.25, DRAWN[-1])


if __name__ == "__main__":
    main()
