"""The two ways to run the train step: in this process, or on the workers of a cluster."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

import tensorflow as tf

from trainer.chunks import chunks
from trainer.liveness import Monitor
from trainer.metrics import Totals
from trainer.step import TrainStep

# Enough that a worker which has ended one call finds the next one waiting.
_CALLS_PER_WORKER = 3
_CHECK_SECONDS = 0.5


class SingleDriver:
    """Runs the steps one after the other in this process."""

    def __init__(self, step: TrainStep, table: Any, *, batch_size: int, steps_per_call: int):
        self._run, self._table = tf.function(step.run), table
        self._batch_size, self._steps_per_call = batch_size, steps_per_call

    def run(self, start: int, stop: int) -> Iterator[Totals]:
        """Yields the totals of each call."""
        for first, count in chunks(start, stop, steps_per_call=self._steps_per_call):
            sums = self._run(self._table, tf.constant(first), tf.constant(count))
            yield make_totals(sums.numpy(), count, self._batch_size)


class ClusterDriver:
    """Keeps every worker busy with calls of its own; their updates meet on the servers.

    Each call is told which batches to train on, so the job takes exactly its steps, each batch is
    used once, and a call can be repeated on another worker.
    """

    def __init__(
        self,
        step: TrainStep,
        dataset: tf.data.Dataset,
        *,
        strategy: tf.distribute.ParameterServerStrategy,
        monitor: Monitor,
        num_workers: int,
        batch_size: int,
        steps_per_call: int,
    ):
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._monitor, self._num_workers = monitor, num_workers
        self._batch_size, self._steps_per_call = batch_size, steps_per_call
        # The one element, the table, stays in each worker's memory.
        per_worker = self._coordinator.create_per_worker_dataset(dataset.cache().repeat())
        self._tables = iter(per_worker)
        self._run = tf.function(lambda tables, *args: step.run(next(tables), *args))
        self._fetcher = ThreadPoolExecutor(1, thread_name_prefix="fetch")

    def run(self, start: int, stop: int) -> Iterator[Totals]:
        """Yields the totals of each call, in the order in which they were scheduled."""
        waiting: deque[tuple[int, Future]] = deque()
        to_do = chunks(
            start, stop, steps_per_call=self._steps_per_call, num_workers=self._num_workers
        )
        for first, count in to_do:
            waiting.append((count, self._schedule(first, count)))
            if len(waiting) >= _CALLS_PER_WORKER * self._num_workers:
                yield self._wait(*waiting.popleft())
        while waiting:
            yield self._wait(*waiting.popleft())

    def _schedule(self, first: int, count: int) -> Future:
        args = (self._tables, tf.constant(first), tf.constant(count))
        value = self._coordinator.schedule(self._run, args=args)
        return self._fetcher.submit(value.fetch)

    def _wait(self, count: int, future: Future) -> Totals:
        # Waiting in slices: the coordinator itself would wait for ever for a worker that is gone.
        while True:
            self._monitor.raise_if_lost()
            try:
                sums = future.result(timeout=_CHECK_SECONDS)
            except FutureTimeoutError:
                continue
            self._monitor.progressed()
            return make_totals(sums, count, self._batch_size)


def make_totals(sums: Any, count: int, batch_size: int) -> Totals:
    """Returns the totals of a call that trained `count` batches."""
    loss, correct = (float(value) for value in sums)
    return Totals(steps=count, examples=count * batch_size, loss=loss, correct=correct)
