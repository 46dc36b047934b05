"""How steps are run in asynchronous training: calls of several steps, handed out to workers."""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import tensorflow as tf

from trainer.cluster.liveness import Monitor, WorkerMonitor
from trainer.examples.stream import Stream
from trainer.examples.tables import Decoder, as_tensors
from trainer.runtime.tracing import traced
from trainer.strategies.calls import chunks
from trainer.strategies.synchronous import make_totals, run_steps
from trainer.training.parameters import Parameters
from trainer.training.recorder import Totals
from trainer.training.step import TrainStep

Coordinator: TypeAlias = tf.distribute.coordinator.ClusterCoordinator
# Enough that a worker which has ended one call finds the next one waiting.
CALLS_PER_WORKER = 3
_CHECK_SECONDS = 0.5


class WorkerTables(Protocol):
    """Where the steps of a worker find their examples."""

    steps_per_block: int

    def where(self, step: int) -> Any:
        """Returns what a call that begins with this step is told of its table."""

    def table(self, where: Any) -> Any:
        """Returns that table; is traced in the call."""


class CachedTable:
    """All examples in each worker's memory."""

    steps_per_block = 0

    def __init__(self, coordinator: Coordinator, dataset: tf.data.Dataset):
        # It begins to read at once, while the step is traced here.
        options = tf.data.Options()
        options.experimental_warm_start = True
        table = dataset.cache().repeat().prefetch(1).with_options(options)
        self._tables = iter(coordinator.create_per_worker_dataset(table))

    def where(self, step: int) -> Any:
        """Returns the worker's own iterator over a dataset of one element."""
        del step
        return self._tables

    def table(self, where: Any) -> Any:
        """Returns that element."""
        return next(where)


class StreamedBlocks:
    """Examples that do not fit in memory: each call reads the block that its steps lie in."""

    def __init__(self, stream: Stream, decoder: Decoder):
        self._stream, self._decoder = stream, decoder
        self.steps_per_block = stream.steps_per_block

    def where(self, step: int) -> Any:
        """Returns the paths, skips and takes of the block with this step."""
        return as_tensors(self._stream.slices(step // self.steps_per_block))

    def table(self, where: Any) -> Any:
        """Returns the block."""
        size = tf.constant(self._stream.block_size, tf.int64)
        return self._decoder.rows(where, size)


@dataclass(frozen=True)
class _Call:
    """Steps that a worker was given; `slot` is where the servers count those it has done."""

    first: int
    count: int
    slot: int
    sums: Future[Any]


class ClusterDriver:
    """Keeps every worker busy with calls of its own; their updates meet on the servers.

    Each call is told which batches to train on. When its worker dies, another one (or the same,
    started again) repeats the call from the step after the last one that the servers have counted.
    `global_step` and that count change in one operation, on the server, when the gradient has
    arrived there: so each batch is used once and each update counted once, whoever dies.

    A checkpoint is read while the workers go on, first the counts, then one vector after another.
    So of each worker one update at most may be counted and not be in the weights yet: a job that
    goes on from there has lost it. And updates that arrive until the last vector is read may be in
    the weights, or only in the optimizer's vectors, and not be counted: their batches are trained
    on once more. The counts themselves always agree with the list of what is still to do. To wait
    for all open calls at each checkpoint would be exact, but leave every worker idle meanwhile.
    """

    def __init__(
        self,
        step: TrainStep,
        parameters: Parameters,
        open_tables: Callable[[Coordinator], WorkerTables],
        *,
        strategy: tf.distribute.ParameterServerStrategy,
        servers: Monitor,
        workers: WorkerMonitor,
        batch_size: int,
        steps_per_call: int,
        stop: threading.Event,
        finish: threading.Event,
        cuts: Collection[int] = (),
    ):
        self._stop, self._finish, self._cuts = stop, finish, cuts
        self._coordinator = Coordinator(strategy)
        self._step, self._parameters = step, parameters
        self._servers, self._workers = servers, workers
        self._num_workers = workers.num_workers
        self._batch_size, self._steps_per_call = batch_size, steps_per_call
        self._tables = open_tables(self._coordinator)
        # A block lies in any number of files, for each of which a graph would be made.
        self._run = traced(self._steps, reduce_retracing=True)
        self._fetcher = ThreadPoolExecutor(1, thread_name_prefix="fetch")
        self._open: deque[_Call] = deque()
        self._free_slots = list(range(CALLS_PER_WORKER * self._num_workers))
        self._next_step = 0

    @property
    def should_stop(self) -> bool:
        """Whether SIGTERM has come."""
        return self._stop.is_set()

    @property
    def should_finish(self) -> bool:
        """Whether the chief has had enough."""
        return self._finish.is_set()

    def run(self, start: int, stop: int, progress: Mapping[str, Any]) -> Iterator[Totals]:
        """Yields the totals of each call, in the order in which they were handed out."""
        unfinished = progress.get("unfinished", [(start, -1)])
        for first, count in self._work(stop, unfinished):
            if not self._free_slots:
                yield self._close(self._open.popleft())
            self._open.append(self._schedule(first, count, self._free_slots.pop()))
            self._next_step = max(self._next_step, first + count)
        while self._open:
            yield self._close(self._open.popleft())

    def progress(self, steps_done: Sequence[int]) -> Mapping[str, Any]:
        """Returns what is still to do, given the servers' count of steps done in each slot.

        That is a list of (first step, number of steps), where -1 stands for all that follow.
        """
        rest = [
            (call.first + steps_done[call.slot], call.count - steps_done[call.slot])
            for call in self._open
            if steps_done[call.slot] < call.count
        ]
        return {"unfinished": [*rest, (self._next_step, -1)]}

    def _work(self, stop: int, unfinished: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
        for first, count in unfinished:
            self._next_step = max(self._next_step, first)
            last = stop if count < 0 else first + count
            steps_per_block = self._tables.steps_per_block
            yield from chunks(
                first,
                last,
                # A block is read anew for each call.
                steps_per_call=steps_per_block or self._steps_per_call,
                num_workers=1 if steps_per_block else self._num_workers,
                steps_per_block=steps_per_block,
                cuts=self._cuts,
            )

    def _schedule(self, first: int, count: int, slot: int) -> _Call:
        where = self._tables.where(first)
        args = (where, tf.constant(first), tf.constant(count), tf.constant(slot))
        value = self._coordinator.schedule(self._run, args=args)
        return _Call(first, count, slot, self._fetcher.submit(value.fetch))

    def _steps(self, where: Any, start: tf.Tensor, count: tf.Tensor, slot: tf.Tensor) -> tf.Tensor:
        table = self._tables.table(where)
        done = tf.cast(self._parameters.steps_done(slot), tf.int32)
        sums = run_steps(
            self._step,
            lambda index, rows: self._step.update(table, index, rows=rows),
            start + done,
            count - done,
            slot=slot,
        )
        return tf.concat([sums, [tf.cast(count - done, tf.float32)]], 0)

    def _close(self, call: _Call) -> Totals:
        *sums, num_run = self._sums(call)
        self._parameters.free_slot(call.slot)
        self._free_slots.append(call.slot)
        return make_totals(
            sums,
            first=call.first,
            count=call.count,
            num_measured=int(num_run),
            batch_size=self._batch_size,
        )

    def _sums(self, call: _Call) -> Any:
        """What a call has measured, or only what is left of it to do.

        For a worker may die when its call has ended, but before the sums are fetched from it.
        """
        while True:
            try:
                return self._wait(call.sums)
            except tf.errors.UnavailableError as error:
                if self._servers.explain(error) is not error:
                    raise
                call = self._schedule(call.first, call.count, call.slot)

    def _wait(self, future: Future[Any]) -> Any:
        # Waiting in slices: the coordinator itself would wait for ever for a server that is gone.
        while True:
            self._servers.raise_if_lost()
            self._workers.raise_if_lost()
            try:
                sums = future.result(timeout=_CHECK_SECONDS)
            except FutureTimeoutError:
                continue
            return sums.numpy() if hasattr(sums, "numpy") else sums
