"""Examples a second of two workers against one, each replica pinned to a core of its own.

The share of each worker in a batch is kept: two workers train on batches twice as large. A
parameter server runs on the cores of its workers; the chief only hands out work. Two jobs that
share nothing, each on a core of its own, show what the machine leaves to be reached.
"""

import argparse
import statistics
from concurrent.futures import ThreadPoolExecutor

from benchmarks.clusters import Shape, report, train

CORES = (0, 1)
CASES = {
    "multi_worker_mirrored": Shape(chiefs=0, workers=2, cores={"worker/0": [0], "worker/1": [1]}),
    "parameter_server": Shape(workers=2, ps=1, cores={"worker/0": [0], "worker/1": [1]}),
}
# A workload's model, its steps, and how many of them are in a call and in a report.
MODELS = {"mnist": ("cnn", 250, 25), "cifar10": ("resnet20", 120, 5)}


def main() -> None:
    """Runs one worker and two in turn, and prints the ratio of their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", choices=list(MODELS), default=["mnist"])
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; default: %(default)s")
    parser.add_argument(
        "--batch-size", type=int, default=256, help="examples of a worker; default: %(default)s"
    )
    arguments = parser.parse_args()
    for workload in arguments.workloads:
        _compare(workload, batch_size=arguments.batch_size, rounds=arguments.rounds)


def _compare(workload: str, *, batch_size: int, rounds: int) -> None:
    model, steps, some = MODELS[workload]
    flags = [f"--model={model}", f"--steps={steps}"]
    flags += [f"--steps-per-call={some}", f"--log-every-steps={some}"]

    def measure(shape: Shape, factor: int = 1) -> float:
        batch = f"--batch-size={batch_size * factor}"
        return train(shape, *flags, batch, workload=workload).examples_per_second

    def measure_alone(core: int) -> float:
        return measure(Shape(cores={"chief/0": [core]}))

    speeds: dict[str, list[float]] = {name: [] for name in ("one", "nothing", *CASES)}
    for _ in range(rounds):
        speeds["one"].append(measure_alone(CORES[0]))
        with ThreadPoolExecutor() as pool:
            speeds["nothing"].append(sum(pool.map(measure_alone, CORES)))
        for strategy, shape in CASES.items():
            factor = shape.workers if strategy == "multi_worker_mirrored" else 1
            speeds[strategy].append(measure(shape, factor))
    one = statistics.median(speeds.pop("one"))
    for name, measured in speeds.items():
        what = "2 jobs that share nothing" if name == "nothing" else f"2 workers, {name},"
        report(
            f"{workload} {model}, {batch_size} examples each: {what} against 1",
            ours=statistics.median(measured),
            theirs=one,
            unit="examples/s",
        )


if __name__ == "__main__":
    main()
