"""`--profile-steps`: a trace of some steps for the profile plugin of TensorBoard."""

import logging
import threading
import time
from collections.abc import Collection, Iterator

import tensorflow as tf

from trainer.errors import first_line
from trainer.training.results.recorder import Totals

logger = logging.getLogger(__name__)

# Limits of the duration of a trace of servers.
_MIN_SECONDS, _MAX_SECONDS = 0.5, 30.0
_STOP_SECONDS = 10.0


def profile_calls(
    calls: Iterator[Totals],
    *,
    start: int,
    steps: range,
    log_dir: str,
    servers: Collection[str] = (),
) -> Iterator[Totals]:
    """Yield the totals of a driver's calls; trace the calls of `steps`, counted from 1.

    One call must end just before these steps and one with the last of them. The trace includes
    what the caller does between calls, such as saving a checkpoint. `servers` are addresses of
    TensorFlow servers to trace for the expected duration, because they do not count the steps.
    """
    step, trace = start, None
    began, num_timed = 0.0, 0  # without the first call, which traces the graph
    try:
        while True:
            if trace is None and steps.start <= step + 1 < steps.stop:
                per_step = (time.monotonic() - began) / num_timed if num_timed else 0.0
                seconds = min(max(per_step * (steps.stop - 1 - step), _MIN_SECONDS), _MAX_SECONDS)
                trace = _Trace(log_dir, servers, seconds=seconds)
            with tf.profiler.experimental.Trace("train", step_num=step + 1, _r=1):
                totals = next(calls, None)
            if totals is None:
                return
            step += totals.steps
            if began:
                num_timed += totals.steps
            began = began or time.monotonic()
            if trace and step + 1 >= steps.stop:
                trace.stop(step)
                trace = None
            yield totals
    finally:
        if trace:
            trace.stop(step)


class _Trace:
    def __init__(self, log_dir: str, servers: Collection[str], *, seconds: float):
        self._log_dir, self._seconds = log_dir, seconds
        tf.profiler.experimental.start(log_dir)
        self._server_thread = threading.Thread(
            target=self._trace_servers, args=[servers], daemon=True
        )
        if servers:
            self._server_thread.start()

    def stop(self, step: int) -> None:
        tf.profiler.experimental.stop()
        if self._server_thread.is_alive():
            self._server_thread.join(self._seconds + _STOP_SECONDS)
        logger.info("a trace up to step %d is in %s/plugins/profile", step, self._log_dir)

    def _trace_servers(self, servers: Collection[str]) -> None:
        urls = ",".join(f"grpc://{address}" for address in servers)
        duration_ms = round(1000 * self._seconds)
        try:
            tf.profiler.experimental.client.trace(urls, self._log_dir, duration_ms)
        except tf.errors.OpError as error:
            logger.warning(
                "workers and parameter servers could not be traced: %s", first_line(error)
            )
