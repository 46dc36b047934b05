"""Processes that prepare examples on one machine.

Pillow holds Python's lock while it inflates, so threads decode images on little more than one core.
The processes share what this process has imported.
"""

import contextlib
import gc
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from typing import TypeVar

import numpy as np

from components.prepare_examples.errors import DataError
from trainer.runtime.processes import process_context

logger = logging.getLogger(__name__)

LARGE_BLOCK_BYTES = 31 << 20  # the largest that has this effect is below 32 MB

Item = TypeVar("Item")
Result = TypeVar("Result")


def results(
    function: Callable[[Item], Result], items: Sequence[Item], *, count: int
) -> list[Result]:
    """Return the function's result for each item, computed by `count` forked processes.

    With fewer than two, and without shared memory for them, this process does the work.

    Raises:
        DataError: a process was killed.
    """
    context = process_context()
    if count <= 1 or not _has_shared_memory(context):
        return list(map(function, items))
    stop, stopper = context.Pipe(duplex=False)
    shared = stop, stopper
    with (
        stop,
        stopper,
        frozen_objects(),
        ProcessPoolExecutor(count, context, initializer=_start, initargs=shared) as pool,
    ):
        try:
            return list(pool.map(function, items))
        except BrokenProcessPool as error:
            raise DataError(
                "a process that prepares examples was killed, perhaps for lack of memory; free"
                " memory, or use fewer processes (--direct-workers 1, in a pipeline --set"
                " prepare.beam_options=--direct_num_workers=1), and run again"
            ) from error
        finally:
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


def _has_shared_memory(context: BaseContext) -> bool:
    """Return whether processes can share memory on this system; warn if not."""
    try:
        context.Value("q", 0)
    except OSError as error:
        logger.warning(
            "one process reads the examples, since several cannot share memory (%s): make /dev/shm"
            " a writable tmpfs",
            error,
        )
        return False
    return True


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
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel, stop])
    os._exit(1)
