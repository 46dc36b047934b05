"""Processes beside the workers of Beam that run in this process.

Pillow holds Python's lock while it inflates, so threads decode images on little more than one core;
and processes work while Beam is still being imported. They are forked before Beam starts threads,
and share what this process has imported.
"""

import contextlib
import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

import numpy as np

from components.prepare_examples.errors import DataError
from trainer.runtime.processes import process_context

logger = logging.getLogger(__name__)

START_TIMEOUT_SECONDS = 60.0
LARGE_BLOCK_BYTES = 31 << 20  # the largest that has this effect is below 32 MB

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class _Pool:
    executor: ProcessPoolExecutor
    count: int
    started: list[Future[dict[int, Any]]] = field(default_factory=list)


_pools: dict[str, _Pool] = {}
_counters: list[Any] = []  # in a forked process, the number of items taken by all of them


@contextlib.contextmanager
def forked(count: int, *, key: str) -> Iterator[None]:
    """Fork `count` processes, which work for `key` until the context ends.

    With fewer than two, and without shared memory for them, `result` does the work in its caller's
    thread.
    """
    context = process_context()
    counter = _counter(context) if count > 1 else None
    if counter is None:
        yield
        return
    stop, stopper = context.Pipe(duplex=False)
    shared = stop, stopper, counter
    with (
        stop,
        stopper,
        frozen_objects(),
        ProcessPoolExecutor(count, context, initializer=_start, initargs=shared) as pool,
    ):
        # The first call forks all, before there are threads; elsewhere each call starts one more.
        begun = [pool.submit(os.getpid) for _ in range(count)]
        begun[0].result(START_TIMEOUT_SECONDS)
        _pools[key] = _Pool(pool, count)
        try:
            yield
        finally:
            del _pools[key]
            stopper.close()  # they exit at once: by themselves they would free all memory first
            pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def frozen_objects() -> Iterator[None]:
    """Never collect the objects that exist now, here and in processes forked meanwhile.

    A fork that destroys an object of its parent, such as a TensorFlow function, may crash; and a
    collection in the parent would copy the pages that the forks share.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _counter(context: BaseContext) -> Any:
    """Return a number that processes share, or None if this system has no shared memory."""
    try:
        return context.Value("q", 0)
    except OSError as error:
        logger.warning(
            "one process reads the examples, since several cannot share memory (%s): make /dev/shm"
            " a writable tmpfs",
            error,
        )
        return None


def start(function: Callable[[Item], Any], items: Sequence[Item], *, key: str) -> None:
    """Start the function on all items, for `result` to return its results; once in a `forked`.

    The processes take the items themselves: if this process handed them out, they would wait for
    its lock, a tenth of a second while Beam starts.
    """
    if key in _pools:
        pool = _pools[key]
        pool.started = [
            pool.executor.submit(_take_items, function, items) for _ in range(pool.count)
        ]


def _take_items(function: Callable[[Item], Result], items: Sequence[Item]) -> dict[int, Result]:
    """Return the function's results for the items that this process has taken, by their numbers."""
    results_by_number: dict[int, Result] = {}
    (counter,) = _counters
    while True:
        with counter.get_lock():
            number = int(counter.value)
            counter.value += 1
        if number >= len(items):
            return results_by_number
        results_by_number[number] = function(items[number])


def result(function: Callable[[Item], Result], number: int, item: Item, *, key: str) -> Result:
    """Return the function's result for an item, the `number`th of those that `start` got, if any.

    Raises:
        DataError: a process was killed.
    """
    if key not in _pools or not _pools[key].started:
        return function(item)
    results: dict[int, Result] = {}
    try:
        for taken in _pools[key].started:
            results |= taken.result()
    except BrokenProcessPool as error:
        raise DataError(
            "a process that prepares examples was killed, perhaps for lack of memory; free memory,"
            " or use fewer processes (--direct-workers 1, in a pipeline --set"
            " prepare.beam_options=--direct_num_workers=1), and run again"
        ) from error
    return results[number]


def _start(stop: Connection, stopper: Connection, counter: Any) -> None:
    """Leave Ctrl-C to the parent process, exit when it does, and keep memory between batches.

    After a large block is freed, glibc no longer returns smaller ones to the system: page faults
    took a twentieth of the time.
    """
    np.empty(LARGE_BLOCK_BYTES, np.uint8)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    stopper.close()
    _counters.append(counter)
    threading.Thread(target=_exit_when_told, args=(stop,), daemon=True).start()


def _exit_when_told(stop: Connection) -> None:
    stop.poll(None)  # until the parent closes its end, or is killed
    os._exit(1)
