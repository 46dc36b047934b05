"""Progress of a batch prediction: a line in the log every few seconds."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator

LINE_SECONDS = 5.0

logger = logging.getLogger(__name__)

# The progress of this process. Workers of Beam in other processes have none.
_followers: list[Callable[[int], None]] = []


def advance(num_rows: int) -> None:
    """Count further rows as done."""
    for follow in _followers:
        follow(num_rows)


@contextlib.contextmanager
def shown(num_bytes: int) -> Iterator[None]:
    """Log the number of rows and their rate during the block; `num_bytes` is the input's size."""
    began = last = time.monotonic()
    done = 0

    def add(num_rows: int) -> None:
        nonlocal done, last
        done += num_rows
        now = time.monotonic()
        if now - last > LINE_SECONDS:
            last, rate = now, done / (now - began)
            logger.info(
                "predicting %.1f MB: %s rows, %s rows/s",
                num_bytes / 1e6,
                f"{done:,}",
                f"{rate:,.0f}",
            )

    _followers.append(add)
    try:
        yield
    finally:
        _followers.remove(add)
