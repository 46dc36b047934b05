"""Cost of checkpoints during training, and time until a killed job trains again."""

import argparse
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.support.clusters import Shape, read_metrics, scratch, start, train
from benchmarks.support.report import report

ALONE = Shape()
NEVER = 1_000_000
START_TIMEOUT_SECONDS = 120


def main() -> None:
    """Run both comparisons; the alternatives alternate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; default: %(default)s")
    parser.add_argument("--steps", type=int, default=1200, help="default: %(default)s")
    arguments = parser.parse_args()
    _cost(rounds=arguments.rounds, steps=arguments.steps)
    _resume(rounds=arguments.rounds)


def _cost(*, rounds: int, steps: int) -> None:
    speeds: dict[int, list[float]] = {100: [], NEVER: []}
    for _ in range(rounds):
        for interval, measured in speeds.items():
            flags = [f"--steps={steps}", f"--checkpoint-every-steps={interval}"]
            result = train(ALONE, *flags, "--steps-per-call=50", "--log-every-steps=100")
            measured.append(result.examples_per_second)
    report(
        "a checkpoint every 100 steps against none",
        ours=speeds[100],
        theirs=speeds[NEVER],
        unit="examples/s",
    )


def _resume(*, rounds: int) -> None:
    seconds: dict[str, list[float]] = {"cold": [], "resumed": []}
    for _ in range(rounds):
        with scratch() as folder:
            seconds["cold"].append(_seconds_until_progress(folder))
            seconds["resumed"].append(_seconds_until_progress(folder))
    report(
        "a start that resumes against a cold one, to the first report",
        ours=seconds["resumed"],
        theirs=seconds["cold"],
        unit="s",
        lower_is_better=True,
    )


def _seconds_until_progress(folder: Path) -> float:
    """Return the seconds from a job's start to its first report; kill the job some steps later."""
    reports_before = _num_reports(folder)
    began = time.perf_counter()
    flags = ["--steps=100000", "--checkpoint-every-steps=100", "--log-every-steps=50"]
    with ExitStack() as stack:
        start(stack, folder, ALONE, *flags)
        while _num_reports(folder) == reports_before:
            if time.perf_counter() - began > START_TIMEOUT_SECONDS:
                raise TimeoutError(f"no report within {START_TIMEOUT_SECONDS} s; see {folder}")
            time.sleep(0.02)
        seconds = time.perf_counter() - began
        while _num_reports(folder) < reports_before + 8:  # past a checkpoint
            time.sleep(0.02)
    return seconds


def _num_reports(folder: Path) -> int:
    try:
        return len(read_metrics(folder))
    except (FileNotFoundError, ValueError):
        return 0


if __name__ == "__main__":
    main()
