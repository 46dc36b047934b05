"""Ends a replica whose training stands still, after writing what each of its threads is at.

Two things watch: a Python thread, which can also tell the others; and, should native code hold
Python's lock so that no thread of ours runs, a timer of faulthandler's, which needs no lock.
"""

import contextlib
import faulthandler
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from trainer.cluster.liveness import end_process
from trainer.errors import EXIT_RESTART

logger = logging.getLogger(__name__)

# Telling the others goes through the storage, which may be what stands still.
_TELL_SECONDS = 10.0
_NATIVE_MARGIN_SECONDS = 30.0
_POLL_SECONDS = 0.5
_STDERR = 2


class Watchdog:
    """Calls `on_stall` when `progressed` was not called for so long, and again each time as long.

    While `is_excused` says that the wait has a known reason, which somebody else bounds, time does
    not count. The native timer ends the process after `num_warnings` further stalls.
    """

    def __init__(
        self,
        stall_seconds: float,
        *,
        on_stall: Callable[[str, int], None],
        is_excused: Callable[[], bool] = lambda: False,
        num_warnings: int = 0,
    ):
        self._stall_seconds, self._on_stall, self._is_excused = stall_seconds, on_stall, is_excused
        self._native_seconds = stall_seconds * (1 + num_warnings) + _NATIVE_MARGIN_SECONDS
        self._last = self._armed = time.monotonic()
        self._closed = threading.Event()
        self._arm()
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def progressed(self) -> None:
        """Is told of finished steps, and of evaluations, checkpoints and the like."""
        self._last = time.monotonic()
        if self._last - self._armed > _POLL_SECONDS:
            self._arm()

    def watched(self, items: Iterable[Any]) -> "Watched":
        """Returns the items, each of which counts as progress when it is reached."""
        return Watched(items, self)

    def close(self) -> None:
        """Stops watching."""
        self._closed.set()
        faulthandler.cancel_dump_traceback_later()

    def _arm(self) -> None:
        self._armed = time.monotonic()
        faulthandler.dump_traceback_later(self._native_seconds, exit=True, file=_STDERR)

    def _run(self) -> None:
        num_stalls = 0
        while not self._closed.wait(min(_POLL_SECONDS, self._stall_seconds / 4)):
            if self._is_excused():
                self.progressed()
            waited = time.monotonic() - self._last
            if waited < self._stall_seconds:
                num_stalls = 0
            elif waited >= (num_stalls + 1) * self._stall_seconds:
                num_stalls += 1
                self._on_stall(f"no step has finished for {waited:.0f} s", num_stalls)


class Watched:
    """Items that are progress; may be gone through more than once."""

    def __init__(self, items: Iterable[Any], watchdog: Watchdog):
        self._items, self._watchdog = items, watchdog

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            self._watchdog.progressed()
            yield item
        self._watchdog.progressed()


def dump_stacks(why: str) -> None:
    """Writes the Python stack of every thread of this process to stderr."""
    logger.error("%s; what each thread of this replica is at:", why)
    faulthandler.dump_traceback(file=_STDERR, all_threads=True)


@contextlib.contextmanager
def watching(
    stall_seconds: float,
    *,
    tell: Callable[[str], None] | None = None,
    is_excused: Callable[[], bool] = lambda: False,
    num_warnings: int = 0,
) -> Iterator[Watchdog]:
    """Ends this process with EXIT_RESTART if training stands still inside the block.

    `tell` is given the reason before that, to let other replicas know. The first `num_warnings`
    times only the stacks are written.
    """

    def on_stall(why: str, num_stalls: int) -> None:
        dump_stacks(f"{why} (--stall-seconds {stall_seconds:g})")
        if num_stalls <= num_warnings:
            return
        if tell:
            telling = threading.Thread(target=tell, args=[why], daemon=True)
            telling.start()
            telling.join(_TELL_SECONDS)
        logger.error("%s: this replica ends; started again, the job goes on from its save", why)
        end_process(EXIT_RESTART)

    watchdog = Watchdog(
        stall_seconds, on_stall=on_stall, is_excused=is_excused, num_warnings=num_warnings
    )
    try:
        yield watchdog
    finally:
        watchdog.close()
