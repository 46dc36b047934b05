"""How steps are run in synchronous training: on this replica's devices, alone or with others."""

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer.errors import DivergedError
from trainer.examples.stream import Tables
from trainer.runtime.tracing import traced
from trainer.strategies.calls import chunks
from trainer.strategies.collective import Ring
from trainer.training.recorder import Totals
from trainer.training.step import TrainStep


class SyncDriver:
    """Runs the steps one after the other; every device trains on its part of each batch.

    All updates of a batch's parts are added before one is applied: on the devices of this replica
    first, then, in one message, over the replicas of the ring. So every replica holds the same
    weights to the bit, and how a batch is divided does not change what is learnt.
    """

    def __init__(
        self,
        step: TrainStep,
        tables: Tables,
        *,
        devices: Sequence[str],
        batch_size: int,
        steps_per_call: int,
        stop: threading.Event,
        finish: threading.Event,
        cuts: Collection[int] = (),
        ring: Ring | None = None,
    ):
        self._step, self._tables, self._devices = step, tables, devices
        self._batch_size, self._steps_per_call = batch_size, steps_per_call
        self._stop, self._finish, self._ring, self._cuts = stop, finish, ring, cuts
        self._num_parts = len(devices) * (ring.size if ring else 1)
        self.should_stop = self.should_finish = False
        self._run = traced(self._steps)

    def run(self, start: int, stop: int, progress: Mapping[str, Any]) -> Iterator[Totals]:
        """Yields the totals of each call.

        `should_stop` and `should_finish` then tell all replicas the same.
        """
        del progress  # of asynchronous training, where which steps are done is less plain
        for first, count in chunks(
            start,
            stop,
            steps_per_call=self._steps_per_call,
            steps_per_block=self._tables.steps_per_block,
            cuts=self._cuts,
        ):
            table = self._tables.at(first, stop=stop)
            if self._ring:
                self._ring.monitor.raise_if_lost()
            votes = tf.constant([float(self._stop.is_set()), float(self._finish.is_set())])
            sums = self._run(table, tf.constant(first), tf.constant(count), votes)
            *sums, num_stops, num_finishes = sums.numpy()
            self.should_stop = self._stop.is_set() if self._ring is None else num_stops > 0
            self.should_finish = num_finishes > 0
            is_last = self.should_stop or self.should_finish or first + count >= stop
            if self._ring and (is_last or is_diverged(sums, count)):
                self._ring.part()
            yield make_totals(sums, first=first, count=count, batch_size=self._batch_size)

    def progress(self, steps_done: Sequence[int]) -> Mapping[str, Any]:
        """Returns what a checkpoint must hold beside the state: nothing."""
        del steps_done
        return {}

    def _steps(self, table: Any, start: tf.Tensor, count: tf.Tensor, votes: tf.Tensor) -> tf.Tensor:
        def update(index: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
            return self._update(table, index, rows)

        sums = run_steps(self._step, update, start, count)
        if self._ring:
            votes = self._ring.add_up(votes)
        return tf.concat([sums, votes], 0)

    def _update(self, table: Any, index: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        first = self._ring.rank * len(self._devices) if self._ring else 0
        updates = []
        for offset, device in enumerate(self._devices):
            with tf.device(device) if self._num_parts > 1 else contextlib.nullcontext():
                part = self._step.update(
                    table, index, rows=rows, part=first + offset, num_parts=self._num_parts
                )
                updates.append(part)
        with tf.device(self._devices[0]):
            total = tf.add_n(updates)
            return self._ring.add_up(total) if self._ring else total


def run_steps(
    step: TrainStep,
    update: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    start: tf.Tensor,
    count: tf.Tensor,
    *,
    slot: tf.Tensor | None = None,
) -> tf.Tensor:
    """Trains on batches start, …, start + count - 1; to be traced in a tf.function.

    `update` is given the number of a batch and its rows.
    Returns [loss, correct], summed over all their examples, and the number of steps until the
    loss was not finite.
    """
    rows = step.rows(start + tf.range(count))

    def run_step(
        offset: tf.Tensor, is_good: tf.Tensor, num_good: tf.Tensor, sums: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        done = step.apply(update(start + offset, rows[offset]), slot=slot)
        is_good = tf.logical_and(is_good, tf.math.is_finite(done[0]))
        return offset + 1, is_good, num_good + tf.cast(is_good, tf.float32), sums + done

    *_, num_good, sums = tf.while_loop(
        lambda offset, *_: offset < count,
        run_step,
        (tf.constant(0), tf.constant(True), tf.zeros([]), tf.zeros([2])),
    )
    return tf.concat([sums, num_good[tf.newaxis]], 0)


def is_diverged(sums: Any, num_measured: int) -> bool:
    """Returns whether a loss among the sums of a call was not finite."""
    return sums[2] < num_measured


def make_totals(
    sums: Any, *, first: int, count: int, batch_size: int, num_measured: int | None = None
) -> Totals:
    """Returns the totals of a call of `count` batches, of which the last ones were measured.

    Raises:
        DivergedError: the loss of one of them is infinite or not a number; names the step.
    """
    loss, correct, num_good = (float(value) for value in sums)
    num_measured = count if num_measured is None else num_measured
    if is_diverged(sums, num_measured):
        step = first + count - num_measured + int(num_good) + 1
        raise DivergedError(f"step {step}: the loss is not a finite number")
    return Totals(steps=count, examples=num_measured * batch_size, loss=loss, correct=correct)
