"""Synchronous training: every device computes its part of each batch, then all apply the sum."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer.examples.stream import Tables
from trainer.runtime.tracing import traced
from trainer.strategies.calls import is_diverged, make_totals, split_into_calls
from trainer.strategies.group import ReplicaGroup
from trainer.training.job import Job
from trainer.training.model.embeddings import Contribution, add
from trainer.training.results.recorder import Totals
from trainer.training.step import TrainStep


class SyncDriver:
    """Driver of steps one after the other, on the devices of this replica or of a group of them.

    The contributions of a replica's devices are added; then, in one message, the sums of all
    replicas. So every replica holds the same weights to the bit, and the number of devices does
    not change what is learned.
    """

    def __init__(
        self,
        job: Job,
        step: TrainStep,
        tables: Tables,
        *,
        devices: Sequence[str],
        group: ReplicaGroup | None = None,
    ):
        self._job, self._step, self._tables = job, step, tables
        self._parameters, self._devices, self._group = step.parameters, devices, group
        self._num_parts = len(devices) * (group.size if group else 1)
        self.should_stop = False
        self._call = traced(self._run_steps)
        self._add_up = traced(group.all_reduce) if group else tf.identity

    def run(self, start: int, stop: int, progress: Mapping[str, Any]) -> Iterator[Totals]:
        """Yield the totals of each call.

        With each call the replicas vote: `should_stop` and the learning rate that a callback wants
        are then the same on all of them.
        """
        for first, count in split_into_calls(
            start,
            stop,
            steps_per_call=self._job.steps_per_call,
            steps_per_block=self._job.batches.steps_per_block,
            boundary_after=self._job.boundary_after,
        ):
            if self._job.decides_at_epochs and self._has_finished():
                return
            table = self._tables.at(first, stop=stop)
            if self._group:
                self._group.monitor.raise_if_lost()
            rate, self._parameters.requested_rate = self._parameters.requested_rate, 0.0
            votes = tf.constant([self._job.stop.is_set(), rate], tf.float32)
            values = self._call(table, tf.constant(first), tf.constant(count), votes)
            if self._job.may_save(first, first + count):
                # On all replicas: a job that resumes from the checkpoint begins with rows that are
                # up to date, and ends with the same bits.
                self._parameters.settle()
            *results, num_stops, _ = values.numpy()
            self.should_stop = self._job.stop.is_set() if self._group is None else num_stops > 0
            is_last = self.should_stop or first + count >= stop
            if self._group and (is_last or is_diverged(results, count)):
                self._group.leave()
            yield make_totals(results, first=first, count=count, batches=self._job.batches)

    def _has_finished(self) -> bool:
        """Return True if the chief has ended training; the same on all replicas."""
        num_finishes = self._add_up(tf.constant([self._job.finish.is_set()], tf.float32))
        has_finished = bool(num_finishes[0] > 0)
        if has_finished and self._group:
            self._group.leave()
        return has_finished

    def progress(self, steps_done: Sequence[int]) -> Mapping[str, Any]:
        """Return nothing: the global step says which steps are done."""
        return {}

    def _run_steps(
        self, table: Any, start: tf.Tensor, count: tf.Tensor, votes: tf.Tensor
    ) -> tf.Tensor:
        if self._group:
            votes = self._group.all_reduce(votes)
        if (rate := self._parameters.rules.schedule.variable) is not None:
            rate.assign(tf.where(votes[1] > 0, votes[1], rate))
        # After the votes: all replicas exchange in the same order.
        with tf.control_dependencies([votes]):
            results = self._step.run(
                lambda index, rows: self._contribute(table, index, rows), start, count
            )
        return tf.concat([results, votes], 0)

    def _contribute(self, table: Any, index: tf.Tensor, rows: tf.Tensor) -> Contribution:
        first = self._group.rank * len(self._devices) if self._group else 0
        contributions = []
        for number, device in enumerate(self._devices, start=first):
            with tf.device(device) if self._num_parts > 1 else contextlib.nullcontext():
                contributions.append(
                    self._step.contribute(
                        table, index, rows, part=number, num_parts=self._num_parts
                    )
                )
        with tf.device(self._devices[0]):
            total = add(contributions)
            if not self._group:
                return total
            most_examples = -(-self._job.batches.size // self._group.size)
            most_rows = [table.most_rows(most_examples) for table in self._parameters.places]
            return self._group.add(total, most_rows=most_rows)
