"""Accuracy of the MNIST CNN on the test images, against a goal: the mean of several seeds."""

import argparse
import statistics
import sys

from benchmarks.support.clusters import Shape, examples, scratch, test_metrics, train_in
from benchmarks.support.report import report

GOAL = 0.993
BATCH_SIZE = 128


def main() -> None:
    """Train once for each seed, and print the mean and the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=4, help="default: %(default)s")
    arguments = parser.parse_args()
    found = []
    for seed in range(1, arguments.seeds + 1):
        flags = [f"--epochs={arguments.epochs}", f"--batch-size={BATCH_SIZE}", f"--seed={seed}"]
        with scratch() as folder:
            train_in(folder, Shape(), *flags)
            found.append(test_metrics(folder, examples("mnist"))["accuracy"])
        sys.stderr.write(f"seed {seed}: {found[-1]:.4f}\n")
    report(
        f"MNIST CNN, {arguments.epochs} epochs, mean of {arguments.seeds} seeds",
        ours=statistics.mean(found),
        theirs=GOAL,
        unit="test accuracy, theirs is the goal",
    )


if __name__ == "__main__":
    main()
