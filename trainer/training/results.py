"""What the chief does with finished steps: it reports, measures, saves and exports."""

import contextlib
import dataclasses
import functools
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer.cluster.watchdog import Watchdog
from trainer.runtime.tracing import traced
from trainer.serving.export import export_model
from trainer.training.checkpoint import (
    Checkpoints,
    Saved,
    best_checkpoint,
    delete_folder,
    list_checkpoints,
)
from trainer.training.facts import write_facts
from trainer.training.job import Job
from trainer.training.parameters import Layout, Parameters
from trainer.training.recorder import Recorder, Totals
from trainer.training.step import EvalStep
from trainer.workloads.base import Features, Workload

logger = logging.getLogger(__name__)

_FINISHED_FILE = "finished-early"


class Results:
    """Everything that a job writes."""

    def __init__(self, job: Job, parameters: Parameters, model: Any):
        self._job, self._parameters = job, parameters
        self._model, self._layout = model, Layout(model)
        self._directory = job.folders.checkpoints
        self._checkpoints = Checkpoints(
            self._directory, keep=job.config.keep_checkpoints, best_metric=job.config.best_metric
        )
        self._last_save, self._num_worse = time.monotonic(), 0

    def restore(self) -> Mapping[str, Any]:
        """Loads the latest checkpoint, if there is one; returns what the driver left in it."""
        self._clean()
        write_facts(self._directory, self._job.workload, self._job.manifest.splits["train"])
        saved = self._checkpoints.latest()
        if saved is None:
            delete_folder(self._job.folders.logs)
            self._warn_of_schedule(0, {})
            return {}
        snapshot = saved.load()
        current = self._parameters.snapshot()
        del current["steps_done"]
        self._job.check_fits(snapshot, current, path=saved.path)
        self._parameters.load(snapshot)
        logger.info("resuming from step %d", saved.step)
        self._warn_of_schedule(saved.step, saved.schedule)
        if tf.io.gfile.exists(f"{self._directory}/{_FINISHED_FILE}"):
            self._job.finish.set()
        return saved.extra

    def _warn_of_schedule(self, step: int, old: Mapping[str, Any]) -> None:
        total = self._job.total_steps
        warning = self._job.schedule.warning(step=step, last_step=total, old=old)
        if step < total and warning:
            logger.warning("%s", warning)

    def open(
        self,
        first_step: int,
        progress: Callable[[Sequence[int]], Mapping[str, Any]],
        watchdog: Watchdog,
    ) -> None:
        """Begins to record; `progress` is the driver's part of a checkpoint."""
        job, self._progress, self._watchdog = self._job, progress, watchdog
        self._is_new = first_step == 0
        self._recorder = Recorder(
            job.folders.logs,
            first_step=first_step,
            total_steps=job.total_steps,
            every_steps=job.config.log_every_steps,
            batch_size=job.config.batch_size,
            count_steps=self._parameters.num_steps if job.cluster.count("ps") else None,
        )
        self._best = self._best_so_far()

    def after_call(self, totals: Totals) -> None:
        """Records finished steps; measures at the end of an epoch, saves when it is time to."""
        job, before = self._job, self._recorder.step
        step = before + totals.steps
        self._recorder.add(totals, learning_rate=float(job.schedule.rate(tf.constant(step))))
        is_last = step >= job.total_steps
        if is_last or job.epoch(before) < job.epoch(step):
            self._measure_and_save(must_save=is_last or self._is_due(before, step))
        elif self._is_due(before, step):
            self._save(self._parameters.snapshot())

    def save(self) -> int:
        """Saves now, and returns the step once it is on disk."""
        step = self._save(self._parameters.snapshot())
        self._checkpoints.wait()
        return step

    def last_good_step(self) -> int:
        """Returns the step of the last checkpoint; 0 if there is none."""
        self._checkpoints.wait()
        saved = list_checkpoints(self._directory)
        return saved[-1].step if saved else 0

    def close(self) -> None:
        """Waits for the last checkpoint and flushes what TensorBoard reads."""
        self._recorder.close()
        self._checkpoints.wait()

    def export(self) -> None:
        """Writes the model: the last one, or the best if training has ended early."""
        if self._job.finish.is_set():
            best = self._best_checkpoint()
            assert best is not None  # training has ended early because it was measured
            logger.info("step %d was the best", best.step)
            self._parameters.load(best.load())
        weights, state = best_values(self._parameters.snapshot())
        self._layout.write(weights, self._model, state=state)
        export_model(self._model, self._job.workload, self._job.folders.model)
        logger.info("the model is in %s", self._job.folders.model)

    def _clean(self) -> None:
        """Removes what was asked to go, and what an earlier process was killed over."""
        if self._job.config.fresh:
            delete_folder(self._directory)
        folder, _, name = self._job.folders.model.rpartition("/")
        for entry in tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []:
            if entry.startswith(f"{name}.writing-"):
                delete_folder(f"{folder}/{entry.rstrip('/')}")

    @functools.cached_property
    def _evaluation(self) -> EvalStep:
        """Made when it is first asked, for the workers of a cluster are waiting before that."""
        workload, tables = self._job.workload, self._job.eval_tables()
        if self._is_new:
            features, _ = next(iter(tables))
            self._recorder.add_graph(_model_graph(self._model, workload, features))
        return EvalStep(workload, self._model, self._watchdog.watched(tables))

    def _save(
        self, snapshot: Mapping[str, tf.Tensor], metrics: Mapping[str, float] | None = None
    ) -> int:
        self._last_save = time.monotonic()
        state = dict(snapshot)
        progress = self._progress(state.pop("steps_done").numpy().tolist())
        schedule = dataclasses.asdict(self._job.schedule)
        return self._checkpoints.save(state, metrics=metrics, extra=progress, schedule=schedule)

    def _measure_and_save(self, *, must_save: bool) -> None:
        snapshot = self._parameters.snapshot()
        with self._apart_from_training():
            metrics = self._evaluation.measure(*best_values(snapshot))
        self._recorder.add_evaluation(metrics)
        if self._job.config.histograms:
            self._recorder.add_histograms(self._layout.name(snapshot["weights"], self._model))
        value = self._rank(metrics)
        self._num_worse = 0 if value < self._best else self._num_worse + 1
        if must_save or value < self._best:
            self._best = min(value, self._best)
            self._save(snapshot, metrics)
        if self._num_worse == self._job.config.patience:
            self._finish_early()

    def _apart_from_training(self) -> contextlib.AbstractContextManager[None]:
        # Where there are parameter servers, the workers train on meanwhile.
        has_servers = self._job.cluster.count("ps") > 0
        return contextlib.nullcontext() if has_servers else self._recorder.apart()

    def _finish_early(self) -> None:
        metric = self._job.config.best_metric
        logger.info("no better %s for %d epochs: training ends", metric, self._num_worse)
        with tf.io.gfile.GFile(f"{self._directory}/{_FINISHED_FILE}", "w") as file:
            file.write(f"{self._recorder.step}\n")
        self._job.finish.set()

    def _best_so_far(self) -> float:
        best = self._best_checkpoint()
        return self._rank(best.metrics) if best else math.inf

    def _best_checkpoint(self) -> Saved | None:
        return best_checkpoint(list_checkpoints(self._directory), self._job.config.best_metric)

    def _rank(self, metrics: Mapping[str, float]) -> float:
        """Returns what is the lower, the better the model is."""
        value = metrics[self._job.config.best_metric]
        return value if self._job.config.best_metric == "loss" else -value

    def _is_due(self, before: int, step: int) -> bool:
        config = self._job.config
        if config.checkpoint_every_seconds is not None:
            return time.monotonic() - self._last_save >= config.checkpoint_every_seconds
        return before // config.checkpoint_every_steps < step // config.checkpoint_every_steps


def _model_graph(model: Any, workload: Workload, features: Features) -> tf.Graph:
    """Returns the graph from encoded features to logits."""
    specs = tf.nest.map_structure(
        lambda column: tf.TensorSpec([None, *column.shape[1:]], column.dtype), features
    )
    logits = traced(lambda batch: model(workload.preprocess(batch)))
    return logits.get_concrete_function(specs).graph


def best_values(snapshot: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the weights and state to measure: their moving averages if there are some."""
    weights = snapshot.get("average", snapshot["weights"])
    return weights, snapshot.get("average_state", snapshot["state"])
