"""Watchdog: ends a replica whose training has stalled, after writing the stacks of its threads.

There are two timers. A Python thread can also notify the other replicas. The kernel's alarm needs
no lock: it ends the process if native code holds the GIL and no Python thread can run. A process
that a signal has killed is restarted. The first process of a container ignores the alarm, so
faulthandler ends that one, but only with code 1, which means that the program failed.
"""

import contextlib
import faulthandler
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator

from trainer.cluster.liveness import end_process
from trainer.errors import EXIT_RESTART

logger = logging.getLogger(__name__)

# A notification is written to storage, which may be what has stalled.
_NOTIFY_SECONDS = 10.0
_NATIVE_MARGIN_SECONDS = 30.0
_AFTER_ALARM_SECONDS = 1.0
_POLL_SECONDS = 0.5
_STDERR = 2


class Watchdog:
    """Timer that calls `on_stall` after every `stall_seconds` without progress.

    `on_stall` receives a message and the number of stalls since the last progress. Time does not
    count while `is_excused` returns True: the wait has a known cause and its own timeout. If no
    Python code can run, SIGALRM ends the process soon after stall number `num_warnings` + 1.
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
        self._timers = threading.Lock()  # so that none is started after `close`
        faulthandler.register(signal.SIGALRM, file=_STDERR, chain=True)
        self._arm()
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def report_progress(self) -> None:
        """Restart the timers, after finished steps and during evaluations."""
        self._last = time.monotonic()
        if self._last - self._armed > _POLL_SECONDS:
            self._arm()

    def close(self) -> None:
        """Stop both timers."""
        with self._timers:
            self._closed.set()
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.unregister(signal.SIGALRM)
            faulthandler.cancel_dump_traceback_later()

    def _arm(self) -> None:
        with self._timers:
            if self._closed.is_set():
                return
            self._armed = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, self._native_seconds)
            seconds = self._native_seconds + _AFTER_ALARM_SECONDS
            faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)

    def _run(self) -> None:
        num_stalls = 0
        while not self._closed.wait(min(_POLL_SECONDS, self._stall_seconds / 4)):
            if self._is_excused():
                self.report_progress()
            waited = time.monotonic() - self._last
            if waited < self._stall_seconds:
                num_stalls = 0
            elif waited >= (num_stalls + 1) * self._stall_seconds:
                num_stalls += 1
                self._on_stall(f"no step has finished for {waited:.0f} s", num_stalls)


def dump_stacks(why: str) -> None:
    """Write the Python stacks of all threads of this process to stderr."""
    logger.error("%s; the stacks of this replica's threads:", why)
    faulthandler.dump_traceback(file=_STDERR, all_threads=True)


@contextlib.contextmanager
def end_on_stall(
    stall_seconds: float,
    *,
    notify: Callable[[str], None] | None = None,
    is_excused: Callable[[], bool] = lambda: False,
    num_warnings: int = 0,
) -> Iterator[Watchdog]:
    """End this process with EXIT_RESTART, or by SIGALRM, if training stalls in the block.

    The first `num_warnings` stalls only write the stacks. Before the process ends, `notify` is
    called with the reason, to inform the other replicas.
    """

    def on_stall(why: str, num_stalls: int) -> None:
        dump_stacks(f"{why} (--stall-seconds {stall_seconds:g})")
        if num_stalls <= num_warnings:
            return
        if notify:
            thread = threading.Thread(target=notify, args=[why], daemon=True)
            thread.start()
            thread.join(_NOTIFY_SECONDS)
        logger.error("%s: ending this replica; start the job again to resume", why)
        end_process(EXIT_RESTART)

    watchdog = Watchdog(
        stall_seconds, on_stall=on_stall, is_excused=is_excused, num_warnings=num_warnings
    )
    try:
        yield watchdog
    finally:
        watchdog.close()
