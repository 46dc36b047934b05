"""Time of a paired bootstrap interval of the AUC, against a plain loop of resampled arrays.

python -m benchmarks.bootstrap [--num-examples 100000]
"""

import argparse
import time

import numpy as np

from benchmarks.support.report import report
from components.evaluate.gate.gain import NUM_DRAWS, measure_gain
from trainer.serving.class_metrics import area_under_curve
from trainer.serving.resampling import area_statistic

NUM_PLAIN_DRAWS = 20  # of the plain loop, whose time is proportional to them
SHARE_OF_TRUE = 0.22


def main() -> None:
    """Print the seconds of both, as a JSON line, and the largest difference of their values."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-examples", type=int, default=100_000)
    size = parser.parse_args().num_examples
    random = np.random.default_rng(1)
    labels = (random.random(size) < SHARE_OF_TRUE).astype(np.int64)
    scores = [(labels + random.normal(size=size)).astype(np.float32) for _ in range(2)]

    start = time.perf_counter()
    statistics = [area_statistic(one, labels == 1) for one in scores]
    measure_gain("auc", *statistics, num_examples=size, confidence=0.95)
    ours = time.perf_counter() - start

    start = time.perf_counter()
    largest = 0.0
    draws = [random.integers(size, size=size) for _ in range(NUM_PLAIN_DRAWS)]
    plain = [[area_under_curve(one[draw], labels[draw]) for one in scores] for draw in draws]
    theirs = (time.perf_counter() - start) * NUM_DRAWS / NUM_PLAIN_DRAWS
    for draw, values in zip(draws, plain, strict=True):
        counts = np.bincount(draw, minlength=size)
        ours_now = [statistic(counts) for statistic in statistics]
        largest = max(largest, float(np.abs(np.subtract(ours_now, values)).max()))
    report(
        f"bootstrap of auc, {size:,} examples, {NUM_DRAWS:,} draws",
        ours=ours,
        theirs=theirs,
        unit="s",
        lower_is_better=True,
        largest_difference=largest,
    )


if __name__ == "__main__":
    main()
