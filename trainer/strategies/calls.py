"""Calls of the graph: how steps are divided into calls, and the totals a call returns."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainer.errors import DivergedError
from trainer.examples.batches import Batches
from trainer.training.results.recorder import Totals


def split_into_calls(
    start: int,
    stop: int,
    *,
    steps_per_call: int,
    num_workers: int = 1,
    steps_per_block: int = 0,
    boundary_after: Callable[[int], int] | None = None,
) -> Iterator[tuple[int, int]]:
    """Yield calls (first step, number of steps) that together are start, …, stop - 1.

    A call ends where `boundary_after` says, given and returning a number of finished steps, and
    stays in one block if there are blocks. With several workers the last calls get smaller, so that
    all workers finish at nearly the same time.
    """
    while start < stop:
        fair_share = -(-(stop - start) // (2 * num_workers)) if num_workers > 1 else stop - start
        count = min(steps_per_call, fair_share)
        if boundary_after:
            count = min(count, boundary_after(start) - start)
        if steps_per_block:
            count = min(count, steps_per_block - start % steps_per_block)
        yield start, count
        start += count


def is_diverged(results: Any, num_measured: int) -> bool:
    """Return True if the loss of a step was not finite, given the results of `TrainStep.run`."""
    return bool(results[-1] < num_measured)


def make_totals(
    results: Any, *, first: int, count: int, batches: Batches, num_measured: int | None = None
) -> Totals:
    """Return the totals of a call of `count` steps from the results of `TrainStep.run`.

    Only its last `num_measured` steps are in the results if the call was repeated.

    Raises:
        DivergedError: the loss of a step is infinite or not a number; the message names the step.
    """
    num_good = float(results[-1])
    num_measured = count if num_measured is None else num_measured
    stop = first + count
    if is_diverged(results, num_measured):
        step = stop - num_measured + int(num_good) + 1
        raise DivergedError(f"step {step}: the loss is not a finite number")
    sums = np.asarray(results[:-1], np.float64)
    num_examples = batches.start(stop) - batches.start(stop - num_measured)
    return Totals(steps=count, examples=num_examples, sums=sums)
