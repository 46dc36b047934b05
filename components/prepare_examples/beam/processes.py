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
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

import numpy as np

from components.prepare_examples.errors import DataError
from trainer.runtime.processes import process_context

logger = logging.getLogger(__name__)

LARGE_BLOCK_BYTES = 31 << 20  # the largest that has this effect is below 32 MB

Item = TypeVar("Item")
Result = TypeVar("Result")


_started: dict[str, list[Future[Any]]] = {}  # the results of items, by key


@contextlib.contextmanager
def forked(
    count: int, function: Callable[[Item], Any], items: Sequence[Item], *, key: str
) -> Iterator[None]:
    """Fork `count` processes, which apply the function to all items, until the context ends.

    With fewer than two, and without shared memory for them, `result` does the work in its caller's
    thread.
    """
    context = process_context()
    stop, stopper = context.Pipe(duplex=False)
    with stop, stopper, frozen_objects():
        pool = _pool(count, context, (stop, stopper)) if count > 1 else None
        if pool is None:
            yield
            return
        # The first call forks all, before there are threads; elsewhere each call starts one more.
        _started[key] = [pool.submit(function, item) for item in items]
        try:
            yield
        finally:
            del _started[key]
            stopper.close()  # they exit at once: by themselves they would free all memory first
            pool.shutdown(cancel_futures=True)


def _pool(count: int, context: BaseContext, ends: Any) -> ProcessPoolExecutor | None:
    """Return a pool of processes, or None if this system has no shared memory."""
    try:
        return ProcessPoolExecutor(count, context, initializer=_start, initargs=ends)
    except OSError as error:
        logger.warning(
            "one process reads the examples, since several cannot share memory (%s): make /dev/shm"
            " a writable tmpfs",
            error,
        )
        return None


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


def result(function: Callable[[Item], Result], number: int, item: Item, *, key: str) -> Result:
    """Return the function's result for an item, the `number`th of those that were forked for.

    Raises:
        DataError: a process was killed.
    """
    if key not in _started:
        return function(item)
    try:
        outcome: Result = _started[key][number].result()
    except BrokenProcessPool as error:
        raise DataError(
            "a process that prepares examples was killed, perhaps for lack of memory; free memory,"
            " or use fewer processes (--direct-workers 1, in a pipeline --set"
            " prepare.beam_options=--direct_num_workers=1), and run again"
        ) from error
    return outcome


def _start(stop: Connection, stopper: Connection) -> None:
    """Leave Ctrl-C to the parent process, exit when it does, and keep memory between batches.

    After a large block is freed, glibc no longer returns smaller ones to the system: page faults
    took a twentieth of the time.
    """
    np.empty(LARGE_BLOCK_BYTES, np.uint8)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    stopper.close()
    threading.Thread(target=_exit_when_told, args=(stop,), daemon=True).start()


def _exit_when_told(stop: Connection) -> None:
    stop.poll(None)  # until the parent closes its end, or is killed
    os._exit(1)
