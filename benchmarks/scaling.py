"""Throughput of two workers against one, each pinned to a core of its own.

The batch size per worker is constant: two workers train on batches twice as large. A parameter
server shares the cores of the workers; the chief dispatches steps and evaluates. Two independent
jobs, each on a core of its own, show the upper limit on this machine. Jobs are short and long; the
speed is that of the second half of their steps.
"""

import argparse
import statistics
from concurrent.futures import ThreadPoolExecutor

from benchmarks.support.clusters import Shape, report, train

CORES = (0, 1)
CASES = {
    "multi_worker_mirrored": Shape(chiefs=0, workers=2, cores={"worker/0": [0], "worker/1": [1]}),
    "parameter_server": Shape(workers=2, ps=1, cores={"worker/0": [0], "worker/1": [1]}),
}
# A workload's model, numbers of steps, and steps in a call and in a report.
MODELS = {"mnist": ("cnn", (250, 1000), 25), "cifar10": ("resnet20", (120,), 5)}


def main() -> None:
    """Run one worker and two alternately, and print the ratio of their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", choices=list(MODELS), default=["mnist"])
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; default: %(default)s")
    parser.add_argument(
        "--batch-size", type=int, default=256, help="examples per worker; default: %(default)s"
    )
    arguments = parser.parse_args()
    for workload in arguments.workloads:
        for steps in MODELS[workload][1]:
            _compare(workload, steps, batch_size=arguments.batch_size, rounds=arguments.rounds)


def _compare(workload: str, steps: int, *, batch_size: int, rounds: int) -> None:
    model, _, interval = MODELS[workload]
    flags = [f"--model={model}", f"--steps={steps}"]
    flags += [f"--steps-per-call={interval}", f"--log-every-steps={interval}"]

    def measure(shape: Shape, factor: int = 1) -> float:
        batch = f"--batch-size={batch_size * factor}"
        return train(shape, *flags, batch, workload=workload).examples_per_second

    def measure_alone(core: int) -> float:
        return measure(Shape(cores={"chief/0": [core]}))

    speeds: dict[str, list[float]] = {name: [] for name in ("one", "independent", *CASES)}
    for _ in range(rounds):
        speeds["one"].append(measure_alone(CORES[0]))
        with ThreadPoolExecutor() as pool:
            speeds["independent"].append(sum(pool.map(measure_alone, CORES)))
        for strategy, shape in CASES.items():
            factor = shape.workers if strategy == "multi_worker_mirrored" else 1
            speeds[strategy].append(measure(shape, factor))
    one = statistics.median(speeds.pop("one"))
    for name, measured in speeds.items():
        case = "2 independent jobs" if name == "independent" else f"2 workers, {name},"
        report(
            f"{workload} {model}, {batch_size} examples each, {steps} steps: {case} against 1",
            ours=statistics.median(measured),
            theirs=one,
            unit="examples/s",
        )


if __name__ == "__main__":
    main()
