"""Examples a second of two workers against one, each replica pinned to a core of its own.

The share of each worker in a batch is kept: two workers train on batches twice as large. A
parameter server runs on the cores of its workers; the chief only hands out work.
"""

import argparse
import statistics

from benchmarks.clusters import Shape, report, train

BATCH_SIZE = 128
CASES = {
    "multi_worker_mirrored": (
        Shape(cores={"chief/0": [0]}),
        Shape(chiefs=0, workers=2, cores={"worker/0": [0], "worker/1": [1]}),
    ),
    "parameter_server": (
        Shape(cores={"chief/0": [0]}),
        Shape(workers=2, ps=1, cores={"worker/0": [0], "worker/1": [1]}),
    ),
}
MODELS = {"mnist": ("cnn", 400), "cifar10": ("resnet20", 20)}


def main() -> None:
    """Runs one worker and two in turn, and prints the ratio of their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", choices=list(MODELS), default=["mnist"])
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; default: %(default)s")
    arguments = parser.parse_args()
    for workload in arguments.workloads:
        for strategy, (one, two) in CASES.items():
            _compare(workload, strategy, one, two, rounds=arguments.rounds)


def _compare(workload: str, strategy: str, one: Shape, two: Shape, *, rounds: int) -> None:
    model, steps = MODELS[workload]
    flags = [f"--model={model}", f"--steps={steps}", f"--log-every-steps={max(steps // 8, 1)}"]
    is_synchronous = strategy == "multi_worker_mirrored"
    speeds: dict[str, list[float]] = {"one": [], "two": []}
    for _ in range(rounds):
        for name, shape in (("one", one), ("two", two)):
            factor = 2 if name == "two" and is_synchronous else 1
            batch = f"--batch-size={BATCH_SIZE * factor}"
            result = train(shape, *flags, batch, workload=workload)
            speeds[name].append(result.train_figure("examples_per_second"))
    report(
        f"{workload} {model}, {strategy}: 2 workers against 1",
        ours=statistics.median(speeds["two"]),
        theirs=statistics.median(speeds["one"]),
        unit="examples/s",
    )


if __name__ == "__main__":
    main()
