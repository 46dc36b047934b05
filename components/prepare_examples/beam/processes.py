"""Processes beside the workers of Beam that run in this process.

Pillow holds Python's lock while it inflates, so threads decode images on little more than one core;
tables and raw images are written while Beam is still being imported. Processes are forked before
Beam starts threads, and share what this process has imported.
"""

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

import numpy as np

from components.prepare_examples.errors import DataError
from trainer.runtime.garbage_collection import without_collection

START_TIMEOUT_SECONDS = 60.0
ITEMS_PER_PROCESS = 2  # in progress or waiting
LARGE_BLOCK_BYTES = 31 << 20  # the largest that has this effect is below 32 MB

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class _Pool:
    executor: ProcessPoolExecutor
    count: int
    started: list[Future[Any]] = field(default_factory=list)


_pools: dict[str, _Pool] = {}


@contextlib.contextmanager
def forked(count: int, *, key: str) -> Iterator[None]:
    """Fork `count` processes, which work for `key` until the context ends.

    With fewer than two, `in_order` and `start` leave the work to their caller's thread. An error
    ends the processes at once.
    """
    if count < 2:  # noqa: PLR2004
        yield
        return
    fork = multiprocessing.get_context("fork")
    stop, stopper = fork.Pipe(duplex=False)
    with (
        stop,
        stopper,
        ProcessPoolExecutor(count, fork, initializer=_start, initargs=(stop, stopper)) as pool,
    ):
        # A fork that destroys an object of this process, such as a TensorFlow function, may crash.
        with without_collection():
            # Forks all, before there are threads.
            pool.submit(os.getpid).result(START_TIMEOUT_SECONDS)
        _pools[key] = _Pool(pool, count)
        try:
            yield
        except BaseException:
            stopper.close()
            raise
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
    pool = _pools[key]
    waiting: deque[Future[Result]] = deque()
    with _names_kills():
        for item in items:
            waiting.append(pool.executor.submit(function, item))
            if len(waiting) >= pool.count * ITEMS_PER_PROCESS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def start(function: Callable[[Item], Any], items: Sequence[Item], *, key: str) -> None:
    """Start the function on all items, for `result` to return their results."""
    if key in _pools:
        pool = _pools[key]
        pool.started = [pool.executor.submit(function, item) for item in items]


def result(function: Callable[[Item], Result], number: int, item: Item, *, key: str) -> Result:
    """Return the function's result for an item, the `number`th of those that `start` got, if any.

    Raises:
        DataError: the process was killed.
    """
    if key not in _pools or not _pools[key].started:
        return function(item)
    with _names_kills():
        found: Result = _pools[key].started[number].result()
        return found


@contextlib.contextmanager
def _names_kills() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        raise DataError(
            "a process that prepares examples was killed, perhaps for lack of memory; free memory,"
            " or use fewer processes (--direct-workers 1, in a pipeline --set"
            " prepare.beam_options=--direct_num_workers=1), and run again"
        ) from error


def _start(stop: Connection, stopper: Connection) -> None:
    """Leave Ctrl-C to the parent process, exit when it does, and keep memory between batches.

    After a large block is freed, glibc no longer returns smaller ones to the system: page faults
    took a twentieth of the time.
    """
    gc.freeze()  # the objects of the parent
    gc.enable()
    np.empty(LARGE_BLOCK_BYTES, np.uint8)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    stopper.close()
    threading.Thread(target=_exit_when_told, args=(stop,), daemon=True).start()


def _exit_when_told(stop: Connection) -> None:
    """Exit with the parent process, or when it closes its end of the pipe."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel, stop])
    os._exit(1)
