"""How a job's steps are cut into calls of the graph."""

from collections.abc import Collection, Iterator


def chunks(
    start: int,
    stop: int,
    *,
    steps_per_call: int,
    num_workers: int = 1,
    steps_per_block: int = 0,
    cuts: Collection[int] = (),
) -> Iterator[tuple[int, int]]:
    """Yields (first step, number of steps) that together are start, …, stop - 1.

    A chunk ends at each of `cuts`, numbers of steps done, and lies in one block, if there are
    blocks. With several workers the last chunks get smaller, so that all end at nearly the same
    time.
    """
    while start < stop:
        fair_share = -(-(stop - start) // (2 * num_workers)) if num_workers > 1 else stop - start
        next_cut = min((cut - start for cut in cuts if cut > start), default=stop - start)
        count = min(steps_per_call, fair_share, next_cut)
        if steps_per_block:
            count = min(count, steps_per_block - start % steps_per_block)
        yield start, count
        start += count
