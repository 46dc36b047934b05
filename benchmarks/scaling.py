"""Throughput of two workers against one, each pinned to a core of its own.

The batch size per worker is constant: two workers train on batches twice as large. A parameter
server shares the cores of the workers; the chief dispatches steps and evaluates. Two independent
jobs, each on a core of its own, show the upper limit on this machine. The speed is taken from the
second half of a job's steps.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks.support import dense
from benchmarks.support.clusters import Shape, train
from benchmarks.support.report import report

CORES = (0, 1)
OWN_CORES = {"worker/0": [0], "worker/1": [1]}
CASES = {
    "2 workers, multi_worker_mirrored": Shape(chiefs=0, workers=2, cores=OWN_CORES),
    "2 workers, parameter_server": Shape(workers=2, ps=1, cores=OWN_CORES),
    "2 workers, parameter_server, bfloat16": Shape(workers=2, ps=1, cores=OWN_CORES),
}
FLAGS = {"2 workers, parameter_server, bfloat16": ["--message-dtype=bfloat16"]}


@dataclass(frozen=True)
class Model:
    """A workload's model, the number of steps of its jobs, and steps in a call and in a report."""

    workload: str
    flags: Sequence[str]
    steps: int
    interval: int


MODELS = {
    "mnist cnn": Model("mnist", ["--model=cnn"], 250, 25),
    "cifar10 resnet20": Model("cifar10", ["--model=resnet20"], 120, 5),
    "dense, 10 million weights": Model("dense", [f"--model.units={dense.UNITS[10.0]}"], 100, 5),
}


def main() -> None:
    """Run one worker and two alternately, and print their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--models",
        nargs="+",
        choices=list(MODELS),
        metavar="MODEL",
        default=["mnist cnn", "dense, 10 million weights"],
        help="default: %(default)s",
    )
    parser.add_argument("--rounds", type=int, default=2, help="runs of each; default: %(default)s")
    parser.add_argument(
        "--batch-size", type=int, default=256, help="examples per worker; default: %(default)s"
    )
    parser.add_argument("--steps", type=int, help="default: by the model")
    arguments = parser.parse_args()
    for name in arguments.models:
        steps = arguments.steps or MODELS[name].steps
        _compare(name, steps, batch_size=arguments.batch_size, rounds=arguments.rounds)


def _compare(name: str, steps: int, *, batch_size: int, rounds: int) -> None:
    model = MODELS[name]
    flags = [*model.flags, f"--steps={steps}"]
    flags += [f"--steps-per-call={model.interval}", f"--log-every-steps={model.interval}"]
    folder = dense.examples() if model.workload == "dense" else None
    workload = str(folder or model.workload)

    def measure(shape: Shape, *more: str, factor: int = 1) -> float:
        batch = f"--batch-size={batch_size * factor}"
        done = train(shape, *flags, *more, batch, workload=workload, examples_dir=folder)
        return done.examples_per_second

    def measure_alone(core: int) -> float:
        return measure(Shape(cores={"chief/0": [core]}))

    speeds: dict[str, list[float]] = {
        case: [] for case in ("1 worker", "2 independent jobs", *CASES)
    }
    for _ in range(rounds):
        speeds["1 worker"].append(measure_alone(CORES[0]))
        with ThreadPoolExecutor() as pool:
            speeds["2 independent jobs"].append(sum(pool.map(measure_alone, CORES)))
        for case, shape in CASES.items():
            factor = 1 if shape.ps else shape.workers
            speeds[case].append(measure(shape, *FLAGS.get(case, ()), factor=factor))
    single = speeds.pop("1 worker")
    for case, measured in speeds.items():
        report(
            f"{name}, {batch_size} examples each, {steps} steps: {case}, against 1",
            ours=measured,
            theirs=single,
            unit="examples/s",
        )


if __name__ == "__main__":
    main()
