"""Progress of a batch prediction: a bar on a terminal, log lines elsewhere."""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator

LINE_SECONDS = 5.0

logger = logging.getLogger(__name__)

# The bar of this process. Workers of Beam in other processes have none.
_followers: list[Callable[[int], None]] = []


def advance(num_rows: int) -> None:
    """Show that further rows are done."""
    for follow in _followers:
        follow(num_rows)


@contextlib.contextmanager
def shown(num_bytes: int) -> Iterator[None]:
    """Show the number of rows and their rate during the block; `num_bytes` is the input's size."""
    follow = _bar if sys.stderr.isatty() else _lines
    with follow(f"predicting {num_bytes / 1e6:.1f} MB") as add:
        _followers.append(add)
        try:
            yield
        finally:
            _followers.remove(add)


@contextlib.contextmanager
def _bar(title: str) -> Iterator[Callable[[int], None]]:
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.completed:,.0f} rows, {task.fields[rate]:,.0f} rows/s"),
        progress.TimeElapsedColumn(),
    )
    began, done = time.monotonic(), 0
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, rate=0.0)

        def add(num_rows: int) -> None:
            nonlocal done
            done += num_rows
            bar.update(task, completed=done, rate=done / (time.monotonic() - began))

        yield add


@contextlib.contextmanager
def _lines(title: str) -> Iterator[Callable[[int], None]]:
    began = last = time.monotonic()
    done = 0

    def add(num_rows: int) -> None:
        nonlocal done, last
        done += num_rows
        now = time.monotonic()
        if now - last > LINE_SECONDS:
            last = now
            logger.info(
                "%s: %s rows, %s rows/s", title, f"{done:,}", f"{done / (now - began):,.0f}"
            )

    yield add
