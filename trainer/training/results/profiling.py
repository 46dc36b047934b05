"""`--profile-steps`: a trace of some steps for the profile plugin of TensorBoard."""

import contextlib
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
    step, is_traced = start, False
    began, num_timed = 0.0, 0  # without the first call, which traces the graph
    with contextlib.ExitStack() as trace:
        while True:
            if not is_traced and steps.start <= step + 1 < steps.stop:
                per_step = (time.monotonic() - began) / num_timed if num_timed else 0.0
                seconds = min(max(per_step * (steps.stop - 1 - step), _MIN_SECONDS), _MAX_SECONDS)
                trace.enter_context(_traced(log_dir, servers, seconds=seconds))
                is_traced = True
            with tf.profiler.experimental.Trace("train", step_num=step + 1, _r=1):
                totals = next(calls, None)
            if totals is None:
                return
            step += totals.steps
            if began:
                num_timed += totals.steps
            began = began or time.monotonic()
            if step + 1 >= steps.stop:
                trace.close()
            yield totals


@contextlib.contextmanager
def _traced(log_dir: str, servers: Collection[str], *, seconds: float) -> Iterator[None]:
    """Trace this process in the block, and servers for some seconds."""
    tf.profiler.experimental.start(log_dir)
    of_servers = threading.Thread(
        target=_trace_servers, args=[servers, log_dir, round(1000 * seconds)], daemon=True
    )
    if servers:
        of_servers.start()
    try:
        yield
    finally:
        tf.profiler.experimental.stop()
        if of_servers.is_alive():
            of_servers.join(seconds + _STOP_SECONDS)
        logger.info("the trace of steps is in %s/plugins/profile", log_dir)


def _trace_servers(servers: Collection[str], log_dir: str, duration_ms: int) -> None:
    urls = ",".join(f"grpc://{address}" for address in servers)
    try:
        tf.profiler.experimental.client.trace(urls, log_dir, duration_ms)
    except tf.errors.OpError as error:
        logger.warning("workers and parameter servers could not be traced: %s", first_line(error))
