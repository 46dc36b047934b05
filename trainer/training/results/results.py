"""Results of a job, written by the chief: reports, evaluations, checkpoints and the model."""

import contextlib
import functools
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer.cluster.watchdog import Watchdog
from trainer.errors import TrainerError
from trainer.runtime.tracing import traced
from trainer.serving.export import export_model
from trainer.training.checkpoint import (
    Checkpoints,
    Saved,
    Snapshot,
    best_checkpoint,
    delete_folder,
    list_checkpoints,
)
from trainer.training.facts import write_facts
from trainer.training.job import Job
from trainer.training.model.compiled_metrics import CompiledMetrics
from trainer.training.model.flat_model import FlatModel
from trainer.training.model.objective import Objective
from trainer.training.optimizers.schedule import KerasRate, Schedule
from trainer.training.parameters import Parameters
from trainer.training.results.callbacks import Callbacks
from trainer.training.results.evaluator import EvalStep, served_values
from trainer.training.results.recorder import NOTHING, Recorder, Totals
from trainer.workloads.base import Features, Workload

logger = logging.getLogger(__name__)

_FINISHED_FILE = "finished-early"
# In that file: the last checkpoint is to be exported, not the best.
_LAST = "last"


class Results:
    """Everything a job writes; `export` needs no `open`, the other methods do.

    `model` is the Keras model to evaluate and export, `objective` that of the model in training,
    which evaluates the other one as well.
    """

    def __init__(
        self,
        job: Job,
        parameters: Parameters,
        objective: Objective,
        model: Any,
        *,
        schedule: Schedule | KerasRate,
    ):
        self._job, self._parameters, self._objective = job, parameters, objective
        self._schedule = schedule
        self._model, self._flat_model = model, FlatModel(model)
        # Callbacks look for the metrics of the model that they get.
        self._served_objective = (
            Objective(job.workload, self._flat_model, batch_size=job.config.batch_size)
            if objective.is_smoothed or job.workload.callbacks
            else objective
        )
        self._criterion = objective.criterion(job.config.best_metric)
        self._directory = job.folders.checkpoints
        self._checkpoints = Checkpoints(
            self._directory, keep=job.config.keep_checkpoints, criterion=self._criterion
        )
        self._last_save, self._num_worse = time.monotonic(), 0
        self._exports_best = True
        epochs = -(-job.total_steps * job.config.batch_size // job.train.num_examples)
        self._callbacks = Callbacks(job.workload, model, schedule, epochs=epochs)

    def restore(self) -> Mapping[str, Any]:
        """Load the latest checkpoint; return the driver's progress in it, {} without one."""
        self._delete_leftovers()
        write_facts(self._directory, self._job.workload, self._job.manifest.splits["train"])
        saved = self._checkpoints.latest()
        if saved is None:
            delete_folder(self._job.folders.logs)
            self._warn_about_schedule(0, {})
            return {}
        snapshot = saved.load()
        current = self._parameters.snapshot()
        del current["steps_done"]
        _check_same_model(snapshot, current, path=saved.path)
        self._parameters.load(snapshot)
        logger.info("resuming from step %d", saved.step)
        self._warn_about_schedule(saved.step, saved.schedule)
        if tf.io.gfile.exists(path := f"{self._directory}/{_FINISHED_FILE}"):
            with tf.io.gfile.GFile(path, "r") as file:
                self._exports_best = not file.read().endswith(f"{_LAST}\n")
            self._job.finish.set()
        return saved.extra

    def _warn_about_schedule(self, step: int, old: Mapping[str, Any]) -> None:
        total = self._job.total_steps
        warning = self._schedule.warning(step=step, last_step=total, old=old)
        if step < total and warning:
            logger.warning("%s", warning)

    def open(
        self,
        first_step: int,
        progress: Callable[[Sequence[int]], Mapping[str, Any]],
        watchdog: Watchdog,
    ) -> None:
        """Start to record; `progress` returns the progress of the driver for a checkpoint."""
        job, self._progress, self._watchdog = self._job, progress, watchdog
        self._is_new = first_step == 0
        self._recorder = Recorder(
            job.folders.logs,
            first_step=first_step,
            total_steps=job.total_steps,
            every_steps=job.config.log_every_steps,
            measure=self._measure,
            batch_size=job.config.batch_size,
            count_steps=self._parameters.num_steps if job.cluster.count("ps") else None,
        )
        self._best = self._best_so_far()
        self._epoch_totals = NOTHING
        if self._callbacks:
            self._flat_model.write(*served_values(self._parameters.snapshot()))
            self._parameters.requested_rate = self._callbacks.begin(job.epoch(first_step)) or 0.0

    def after_call(self, totals: Totals) -> None:
        """Record finished steps; evaluate after each epoch; save a checkpoint if one is due."""
        job, before = self._job, self._recorder.step
        step = before + totals.steps
        self._epoch_totals += totals
        self._recorder.add(totals, learning_rate=float(self._schedule.rate(tf.constant(step))))
        is_last = step >= job.total_steps
        if is_last or job.epoch(before) < job.epoch(step):
            is_whole = job.epoch(before) < job.epoch(step)
            self._evaluate_and_save(
                must_save=is_last or self._is_due(before, step),
                epoch=job.epoch(step) - is_whole,
            )
            if self._callbacks and (is_last or job.finish.is_set()):
                self._callbacks.end()
        elif self._is_due(before, step):
            self._save(self._parameters.snapshot())

    def save(self) -> int:
        """Save a checkpoint, wait until it is written, and return its step."""
        step = self._save(self._parameters.snapshot())
        self._checkpoints.wait()
        return step

    def last_good_step(self) -> int:
        """Return the step of the last checkpoint, or 0 without one."""
        self._checkpoints.wait()
        saved = list_checkpoints(self._directory)
        return saved[-1].step if saved else 0

    def close(self) -> None:
        """Wait for the last checkpoint and flush the files of TensorBoard."""
        self._recorder.close()
        self._checkpoints.wait()

    def export(self) -> None:
        """Export the model: of the last step, or of a checkpoint if training ended early."""
        self._flat_model.write(*served_values(self._final_snapshot()))
        compiled = (
            CompiledMetrics(self._job.workload, self._flat_model, self._objective)
            if self._objective.is_own
            else None
        )
        export_model(self._model, self._job.workload, self._job.folders.model, compiled=compiled)
        logger.info("the model is in %s", self._job.folders.model)

    def _final_snapshot(self) -> Snapshot:
        if not self._job.finish.is_set():
            return self._parameters.snapshot()
        # Not through the parameters: workers may still update them.
        which = "best" if self._exports_best else "last"
        saved = self._best_checkpoint() if self._exports_best else self._checkpoints.latest()
        assert saved is not None  # training ends early only after evaluations
        logger.info("exporting the %s checkpoint, of step %d", which, saved.step)
        return saved.load()

    def _delete_leftovers(self) -> None:
        """Delete checkpoints if `--fresh`, and half-written models of a killed process."""
        if self._job.config.fresh:
            delete_folder(self._directory)
        folder, _, name = self._job.folders.model.rpartition("/")
        for entry in tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []:
            if entry.startswith(f"{name}.writing-"):
                delete_folder(f"{folder}/{entry.rstrip('/')}")

    @functools.cached_property
    def _evaluation(self) -> EvalStep:
        """Created at the first evaluation: at the start it would delay the workers."""
        workload, tables = self._job.workload, self._job.eval_tables()
        if self._is_new:
            features, _ = next(iter(tables))
            self._recorder.add_graph(_model_graph(self._model, workload, features))
        watched = self._watchdog.watch_items(tables)
        return EvalStep(workload, self._flat_model, self._served_objective, watched)

    def _measure(self, totals: Totals) -> Mapping[str, float]:
        return self._objective.metrics(totals.sums, num_examples=totals.examples)

    def _save(
        self, snapshot: Mapping[str, tf.Tensor], metrics: Mapping[str, float] | None = None
    ) -> int:
        self._last_save = time.monotonic()
        state = dict(snapshot)
        progress = self._progress(state.pop("steps_done").numpy().tolist())
        schedule = self._schedule.fields()
        return self._checkpoints.save(state, metrics=metrics, extra=progress, schedule=schedule)

    def _evaluate_and_save(self, *, must_save: bool, epoch: int) -> None:
        """Evaluate after an epoch, counted from 0, or after the last step."""
        snapshot: Mapping[str, tf.Tensor] = self._parameters.snapshot()
        with self._exclude_from_speed():
            metrics = self._evaluation.measure(*served_values(snapshot))
        self._recorder.add_evaluation(metrics)
        if self._job.config.histograms:
            self._recorder.add_histograms(self._flat_model.weights_by_name(snapshot["weights"]))
        if self._callbacks:
            snapshot = self._call_back(snapshot, metrics, epoch=epoch)
        value = self._criterion.cost(metrics)
        self._num_worse = 0 if value < self._best else self._num_worse + 1
        should_stop = self._callbacks.should_stop
        if must_save or should_stop or value < self._best:
            self._best = min(value, self._best)
            self._save(snapshot, metrics)
        if self._num_worse == self._job.config.patience:
            metric, patience = self._criterion.metric, self._job.config.patience
            self._finish_early(f"the {metric} no longer improves (--patience {patience})")
        elif should_stop:
            self._exports_best = self._callbacks.restores_best_weights
            self._finish_early("a callback has stopped it")

    def _call_back(
        self, snapshot: Mapping[str, tf.Tensor], metrics: Mapping[str, float], *, epoch: int
    ) -> Mapping[str, tf.Tensor]:
        """Call the callbacks after an epoch; return the snapshot with the rate that they want."""
        self._flat_model.write(*served_values(snapshot))
        train = self._measure(self._epoch_totals)
        self._epoch_totals = NOTHING
        rate = self._callbacks.end_epoch(epoch, train, metrics)
        if rate is None:
            return snapshot
        logger.info("step %d: a callback sets the learning rate to %g", self._recorder.step, rate)
        self._parameters.requested_rate = rate
        return {**snapshot, "learning_rate": tf.constant(rate)}

    def _exclude_from_speed(self) -> contextlib.AbstractContextManager[None]:
        # In asynchronous training the workers continue during an evaluation.
        is_async = self._job.cluster.count("ps") > 0
        return contextlib.nullcontext() if is_async else self._recorder.exclude_time()

    def _finish_early(self, why: str) -> None:
        logger.info("training ends early: %s", why)
        with tf.io.gfile.GFile(f"{self._directory}/{_FINISHED_FILE}", "w") as file:
            which = "best" if self._exports_best else _LAST
            file.write(f"{self._recorder.step} {which}\n")
        self._job.finish.set()

    def _best_so_far(self) -> float:
        best = self._best_checkpoint()
        return self._criterion.cost(best.metrics) if best else math.inf

    def _best_checkpoint(self) -> Saved | None:
        return best_checkpoint(list_checkpoints(self._directory), self._criterion)

    def _is_due(self, before: int, step: int) -> bool:
        config = self._job.config
        if config.checkpoint_every_seconds is not None:
            return time.monotonic() - self._last_save >= config.checkpoint_every_seconds
        return before // config.checkpoint_every_steps < step // config.checkpoint_every_steps


def _check_same_model(
    saved: Mapping[str, tf.Tensor], current: Mapping[str, tf.Tensor], *, path: str
) -> None:
    """Raise TrainerError if a checkpoint is of another model or optimizer."""
    for name in sorted({*saved, *current}):
        shapes = [state[name].shape if name in state else None for state in (saved, current)]
        if shapes[0] != shapes[1]:
            raise TrainerError(
                f"the checkpoint {path} cannot be restored: it is of another model or recipe"
                f" ({name}: {shapes[0]} there, {shapes[1]} here); give --fresh to start over, or"
                " another --output-dir"
            )


def _model_graph(model: Any, workload: Workload, features: Features) -> tf.Graph:
    """Return the graph from encoded features to logits."""
    specs = tf.nest.map_structure(
        lambda column: tf.TensorSpec([None, *column.shape[1:]], column.dtype), features
    )
    logits = traced(lambda batch: model(workload.preprocess(batch)))
    return logits.get_concrete_function(specs).graph
