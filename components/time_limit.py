"""Time limit of a step, which ends itself: the tasks of Vertex AI Pipelines have no limit."""

import faulthandler
import os
import threading

DEFAULT_SECONDS = 3600.0
LONG_SECONDS = 6 * 3600.0
A_DAY_SECONDS = 24 * 3600.0
_STDERR = 2


class TimeLimit:
    """Timer that ends this process as failed, after it has written the stacks of its threads."""

    def __init__(self) -> None:
        self._timer = _started(DEFAULT_SECONDS)

    def set(self, seconds: float, *, setting: str = "") -> None:
        """Start again, with another limit; `setting` is the setting that it comes from."""
        self.close()
        self._timer = _started(seconds, setting)

    def close(self) -> None:
        """Stop the timer, and wait for the end of its thread."""
        self._timer.cancel()
        self._timer.join()


def _started(seconds: float, setting: str = "") -> threading.Timer:
    timer = threading.Timer(seconds, _end_process, (seconds, setting))
    timer.daemon = True
    timer.start()
    return timer


def _end_process(seconds: float, setting: str) -> None:
    faulthandler.dump_traceback(file=_STDERR, all_threads=True)
    remedy = f"if it needs more, raise {setting}; " if setting else ""
    message = f"error: the step has not ended within {seconds:g} s; {remedy}its stacks are above\n"
    os.write(_STDERR, message.encode())
    os._exit(1)
