"""Asynchronous training on parameter servers: calls of several steps, scheduled on workers."""

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, TypeAlias

import tensorflow as tf

from trainer.cluster.liveness import Monitor, WorkerMonitor
from trainer.examples.stream import Stream
from trainer.examples.tables import Decoder, as_tensors
from trainer.runtime.tracing import traced
from trainer.strategies.calls import make_totals, split_into_calls
from trainer.training.job import Job
from trainer.training.results.recorder import Totals
from trainer.training.step import TrainStep

Coordinator: TypeAlias = tf.distribute.coordinator.ClusterCoordinator
# Enough that a worker finds its next call waiting when it finishes one.
CALLS_PER_WORKER = 3
_CHECK_SECONDS = 0.5
_SECONDS_BETWEEN_LINES = 2.0  # in the log of each worker


class CachedTable:
    """All examples in the memory of each worker.

    `locate` runs on the chief; `load` is traced in the call, and runs on the worker.
    """

    def __init__(self, coordinator: Coordinator, dataset: tf.data.Dataset):
        # Workers start to read at once, while the chief traces the step.
        options = tf.data.Options()
        options.experimental_warm_start = True
        table = dataset.cache().repeat().prefetch(1).with_options(options)
        self._iterators = iter(coordinator.create_per_worker_dataset(table))

    def locate(self, step: int) -> Any:
        """Return the worker's iterator over a dataset of one element, the table."""
        return self._iterators

    def load(self, location: Any) -> Any:
        """Return that element."""
        return next(location)


class StreamedBlocks:
    """Examples that do not fit in memory: each call reads the block of its steps."""

    def __init__(self, stream: Stream, decoder: Decoder):
        self._stream, self._decoder = stream, decoder

    def locate(self, step: int) -> Any:
        """Return the (paths, skips, takes) of the block with this step."""
        block = step // self._stream.batches.steps_per_block
        return as_tensors(self._stream.slices(block))

    def load(self, location: Any) -> Any:
        """Return the block."""
        _, _, takes = location
        return self._decoder.rows(location, tf.reduce_sum(takes))


@dataclass(frozen=True)
class _Call:
    """A call in flight: steps scheduled on a worker, and the counter of its finished steps."""

    first: int
    count: int
    counter: int
    results: Future[Any]


class AsyncDriver:
    """Driver with calls of its own for every worker; their updates meet on the servers.

    The steps of a call determine its batches. If its worker is lost, another one, or the same one
    restarted, repeats the call from the step after the last one counted. The global step and the
    call's counter change in one operation on the server, after the gradient has arrived there: so
    each batch is used once and each update is counted once, whichever replica is lost.

    A checkpoint is read while the workers continue: first the counts, then one vector after the
    other. So it may differ from the counts by a few updates: of each worker at most one update
    that is counted but not yet in the weights, which a resumed job has lost; and updates that
    arrive until the last vector is read, which may be in the weights or only in the optimizer's
    slots without being counted, and whose batches are used once more. The counts always agree with
    the list of unfinished calls. An exact checkpoint would leave every worker idle until all calls
    in flight are finished.
    """

    def __init__(
        self,
        job: Job,
        step: TrainStep,
        tables: CachedTable | StreamedBlocks,
        *,
        coordinator: Coordinator,
        servers: Monitor,
        workers: WorkerMonitor,
    ):
        self._job, self._step, self._parameters = job, step, step.parameters
        self._tables, self._coordinator = tables, coordinator
        self._servers, self._workers = servers, workers
        self._num_workers = workers.num_workers
        # A block is in any number of files; without this each number would be traced anew.
        self._run_on_worker = traced(self._run_steps, reduce_retracing=True)
        self._fetcher = ThreadPoolExecutor(1, thread_name_prefix="fetch")
        self._in_flight: deque[_Call] = deque()
        self._free_counters = list(range(CALLS_PER_WORKER * self._num_workers))
        self._shown_at, self._num_to_show = 0.0, 0
        self._next_step = 0

    @property
    def should_stop(self) -> bool:
        """True once SIGTERM was received."""
        return self._job.stop.is_set()

    def run(self, start: int, stop: int, progress: Mapping[str, Any]) -> Iterator[Totals]:
        """Yield the totals of each call, in the order of scheduling, until training has ended."""
        unfinished = progress.get("unfinished", [(start, -1)])
        self._set_requested_rate()
        for first, count in self._calls(stop, unfinished):
            if not self._free_counters:
                yield self._finish_call(self._in_flight.popleft())
                if self._job.finish.is_set():
                    return
                self._set_requested_rate()
            self._in_flight.append(self._schedule(first, count, self._free_counters.pop()))
            self._next_step = max(self._next_step, first + count)
        while self._in_flight and not self._job.finish.is_set():
            yield self._finish_call(self._in_flight.popleft())

    def _set_requested_rate(self) -> None:
        """Set the learning rate that a callback wants; calls in flight use it, too."""
        rate = self._parameters.rules.schedule.variable
        if rate is not None and self._parameters.requested_rate:
            rate.assign(self._parameters.requested_rate)
            self._parameters.requested_rate = 0.0

    def progress(self, steps_done: Sequence[int]) -> Mapping[str, Any]:
        """Return the unfinished steps, given the value of each counter.

        They are a list of (first step, number of steps), where -1 means all that follow.
        """
        rest = [
            (call.first + steps_done[call.counter], call.count - steps_done[call.counter])
            for call in self._in_flight
            if steps_done[call.counter] < call.count
        ]
        return {"unfinished": [*rest, (self._next_step, -1)]}

    def _calls(self, stop: int, unfinished: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
        for first, count in unfinished:
            self._next_step = max(self._next_step, first)
            last = stop if count < 0 else first + count
            steps_per_block = self._job.batches.steps_per_block
            yield from split_into_calls(
                first,
                last,
                # Each call reads its block anew, so it takes as many steps of it as it can.
                steps_per_call=steps_per_block or self._job.steps_per_call,
                num_workers=1 if steps_per_block else self._num_workers,
                steps_per_block=steps_per_block,
                boundary_after=self._job.boundary_after,
            )

    def _schedule(self, first: int, count: int, counter: int) -> _Call:
        location = self._tables.locate(first)
        args = (location, *map(tf.constant, (first, count, counter, self._is_shown())))
        value = self._coordinator.schedule(self._run_on_worker, args=args)
        return _Call(first, count, counter, self._fetcher.submit(value.fetch))

    def _is_shown(self) -> bool:
        """Return whether the worker logs the next call: one each, every few seconds."""
        now = time.monotonic()
        if now - self._shown_at >= _SECONDS_BETWEEN_LINES:
            self._shown_at, self._num_to_show = now, self._num_workers
        self._num_to_show -= 1
        return self._num_to_show >= 0

    def _run_steps(
        self,
        location: Any,
        start: tf.Tensor,
        count: tf.Tensor,
        counter: tf.Tensor,
        is_shown: tf.Tensor,
    ) -> tf.Tensor:
        began = tf.timestamp()
        table = self._tables.load(location)
        done = tf.cast(self._parameters.steps_done(counter), tf.int32)
        results = self._step.run(
            lambda index, rows: self._step.contribute(table, index, rows),
            start + done,
            count - done,
            counter=counter,
        )
        tf.cond(
            is_shown,
            lambda: self._log(results[0], start + done, start + count, began=began),
            lambda: tf.constant(False),
        )
        return tf.concat([results, [tf.cast(count - done, tf.float32)]], 0)

    def _log(
        self, loss: tf.Tensor, start: tf.Tensor, stop: tf.Tensor, *, began: tf.Tensor
    ) -> tf.Tensor:
        """Write steps, loss and rate of a call to the log of the worker that executes it."""
        batches, text = self._job.batches, tf.strings.as_string
        num_examples = tf.cast(batches.start(stop) - batches.start(start), tf.float32)
        with tf.control_dependencies([loss]):
            seconds = tf.cast(tf.timestamp() - began, tf.float32)
        parts = (
            "steps ",
            text(start + 1),
            " to ",
            text(stop),
            " of ",
            text(self._job.total_steps),
            " loss ",
            text(loss / num_examples, precision=4),
            " ",
            text(num_examples / seconds, precision=0),
            " examples/s",
        )
        tf.print(tf.strings.join(parts), output_stream=sys.stderr)
        return tf.constant(True)

    def _finish_call(self, call: _Call) -> Totals:
        *results, num_run = self._fetch(call)
        self._parameters.reset_counter(call.counter)
        self._free_counters.append(call.counter)
        return make_totals(
            results,
            first=call.first,
            count=call.count,
            num_measured=int(num_run),
            batches=self._job.batches,
        )

    def _fetch(self, call: _Call) -> Any:
        """Return the results of a call, or of the rest of its steps if it had to be repeated.

        A worker may be lost when its call is finished but its results are not fetched yet.
        """
        while True:
            try:
                return self._wait(call.results)
            except tf.errors.UnavailableError as error:
                if self._servers.explain(error) is not error:
                    raise
                call = self._schedule(call.first, call.count, call.counter)

    def _wait(self, future: Future[Any]) -> Any:
        # With timeouts, because the coordinator would wait for a lost server for ever.
        while True:
            self._servers.raise_if_lost()
            self._workers.raise_if_lost()
            try:
                results = future.result(timeout=_CHECK_SECONDS)
            except FutureTimeoutError:
                continue
            return results.numpy() if hasattr(results, "numpy") else results
