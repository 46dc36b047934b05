"""Processes that decode images.

Pillow holds Python's lock while it inflates, so threads decode images on little more than one core.
Processes are forked before Beam starts threads, and share what this process has imported.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import TypeVar

import numpy as np

from components.prepare_examples.errors import DataError

START_TIMEOUT_SECONDS = 60.0
ITEMS_PER_PROCESS = 2  # in progress or waiting
LARGE_BLOCK_BYTES = 31 << 20  # the largest that has this effect is below 32 MB

Item = TypeVar("Item")
Result = TypeVar("Result")

_pools: dict[str, tuple[ProcessPoolExecutor, int]] = {}


@contextlib.contextmanager
def forked(count: int, *, key: str) -> Iterator[None]:
    """Fork `count` processes, which `in_order` uses for `key` until the context ends.

    With fewer than two, `in_order` works in its caller's thread.
    """
    if count < 2:  # noqa: PLR2004
        yield
        return
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(count, mp_context=fork, initializer=_start) as pool:
        pool.submit(os.getpid).result(START_TIMEOUT_SECONDS)  # forks all, before there are threads
        _pools[key] = pool, count
        try:
            yield
        finally:
            del _pools[key]
            pool.shutdown(cancel_futures=True)


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], *, key: str
) -> Iterator[Result]:
    """Yield the function's result for each item, in the items' order.

    Raises:
        DataError: a process was killed.
    """
    if key not in _pools:  # also in a worker of Beam in another process or on another machine
        yield from map(function, items)
        return
    pool, count = _pools[key]
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= count * ITEMS_PER_PROCESS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise DataError(
            "a process that decodes images was killed, perhaps for lack of memory; free memory, or"
            " use fewer processes (--direct-workers 1, in a pipeline --set"
            " prepare.beam_options=--direct_num_workers=1), and run again"
        ) from error


def _start() -> None:
    """Leave Ctrl-C to the parent process, exit when it does, and keep memory between batches.

    After a large block is freed, glibc no longer returns smaller ones to the system: page faults
    took a twentieth of the time.
    """
    np.empty(LARGE_BLOCK_BYTES, np.uint8)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
