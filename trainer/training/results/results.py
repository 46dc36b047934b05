"""Results of a job, written by the chief: reports, evaluations, checkpoints and the model."""

import functools
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import tensorflow as tf

from trainer.cluster.watchdog import Watchdog
from trainer.errors import TrainerError
from trainer.runtime.files import delete_folder
from trainer.runtime.machine import write_machine
from trainer.serving.export import export_model
from trainer.training.checkpoint import (
    Checkpoints,
    Saved,
    Snapshot,
    best_checkpoint,
    list_checkpoints,
)
from trainer.training.facts import write_facts
from trainer.training.job import Job
from trainer.training.model.compiled_metrics import CompiledMetrics
from trainer.training.model.flat_model import FlatModel
from trainer.training.model.objective import Objective
from trainer.training.optimizers.schedule import Schedule
from trainer.training.results.callbacks import Callbacks
from trainer.training.results.evaluator import EvalStep, served_values
from trainer.training.results.recorder import NOTHING, Recorder, Totals
from trainer.training.step import TrainStep

logger = logging.getLogger(__name__)

_FINISHED_FILE = "finished-early"
# In that file: the last checkpoint is to be exported, not the best.
_LAST = "last"


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """The state of a job after a reported step, with all that a checkpoint of it holds."""

    step: int
    epoch: int
    """Counted from 0, of the steps that led here."""
    state: Snapshot
    progress: Mapping[str, Any]
    schedule: Mapping[str, Any]
    epoch_totals: Totals = NOTHING
    """Of the steps since the last evaluation."""
    must_save: bool = False


class Results:
    """Everything a job writes; `export` needs no `open`, the other methods do.

    `model` is the Keras model to evaluate and export. The objective belongs to the model in
    training, and evaluates the exported one as well.
    """

    def __init__(self, job: Job, step: TrainStep, model: Any):
        objective, schedule = step.objective, step.parameters.rules.schedule
        self._job, self._parameters, self._objective = job, step.parameters, objective
        self._schedule = schedule
        self._model, self._flat_model = model, FlatModel(model)
        # Callbacks look for the metrics of the model that they get.
        self._served_objective = (
            Objective(job.workload, self._flat_model, batch_size=job.config.batch_size)
            if objective.is_smoothed or job.workload.callbacks
            else objective
        )
        if objective.output_kind.is_guess:
            logger.info("the output of the model is taken as %s", objective.output_kind)
        self._criterion = objective.criterion(job.config.best_metric)
        self._directory = job.folders.checkpoints
        self._checkpoints = Checkpoints(
            self._directory, keep=job.config.keep_checkpoints, criterion=self._criterion
        )
        self._last_save, self._num_worse = time.monotonic(), 0
        self._exports_best = True
        self._watchdog: Watchdog | None = None
        steps = job.batches.per_epoch
        self._callbacks = Callbacks(
            job.workload, model, schedule.variable, epochs=job.num_epochs, steps=steps
        )
        # In asynchronous training the workers continue during an evaluation, and so do the calls
        # that this replica schedules on them.
        self._is_async = job.cluster.count("ps") > 0
        self._background = ThreadPoolExecutor(1, thread_name_prefix="evaluate")
        self._evaluating: tuple[_Moment, Future[dict[str, float]]] | None = None

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
        total, warning = self._job.total_steps, ""
        if isinstance(self._schedule, Schedule):
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
        self._recorder = Recorder(
            job.folders.logs,
            first_step=first_step,
            total_steps=job.total_steps,
            every_steps=job.config.log_every_steps,
            measure=self._measure,
            batch_size=job.config.batch_size,
            count_steps=self._parameters.num_steps if self._is_async else None,
        )
        best = self._best_checkpoint()
        self._best = self._criterion.cost(best.metrics) if best else math.inf
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
        is_whole = job.epoch(before) < job.epoch(step)
        must_save = is_last or self._is_due(before, step)
        if is_last or is_whole:
            self._finish_evaluation()  # of the epoch before
            if job.finish.is_set():
                return
            self._evaluate(self._moment(job.epoch(step) - is_whole, must_save=must_save))
            self._epoch_totals = NOTHING
        elif must_save:
            self._save(self._moment())
        if is_last or (self._evaluating and self._evaluating[1].done()):
            self._finish_evaluation()

    def save(self) -> int:
        """Save a checkpoint, wait until it is written, and return its step."""
        step = self._save(self._moment())
        self._finish_evaluation()
        self._checkpoints.wait()
        return step

    def last_good_step(self) -> int:
        """Return the step of the last checkpoint, or 0 without one."""
        self._checkpoints.wait()
        saved = list_checkpoints(self._directory)
        return saved[-1].step if saved else 0

    def close(self) -> None:
        """Wait for the last checkpoint and flush the files of TensorBoard."""
        self._background.shutdown(wait=False, cancel_futures=True)
        self._recorder.close()
        self._checkpoints.wait()

    def export(self) -> None:
        """Export the model: of the last step, or of a checkpoint if training ended early."""
        weights, state = served_values(self._final_snapshot())
        line = self._job.fit_line()
        decision = self._evaluation.decide(weights, state, line)
        self._flat_model.write(weights, state)
        compiled = (
            CompiledMetrics(self._job.workload, self._flat_model, self._objective)
            if self._objective.is_own
            else None
        )
        export_model(
            self._model,
            self._job.workload,
            self._job.folders.model,
            decision=decision,
            line=line,
            compiled=compiled,
        )
        write_machine(self._job.folders.model.rpartition("/")[0])
        logger.info("the model is in %s", self._job.folders.model)

    def _final_snapshot(self) -> Snapshot:
        if not self._job.finish.is_set():
            return self._parameters.snapshot()
        # Not through the parameters: workers may still update them.
        best = self._best_checkpoint() if self._exports_best else None
        which, saved = "best" if best else "last", best or self._checkpoints.latest()
        assert saved is not None  # training ends early only after evaluations, with a checkpoint
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
        """Created at the first evaluation: at the start it would delay the first step."""
        # In asynchronous training the steps of the workers are watched.
        watchdog = None if self._is_async else self._watchdog
        return EvalStep(
            self._job.workload,
            self._flat_model,
            self._served_objective,
            self._job.eval_tables(),
            report_progress=watchdog.report_progress if watchdog else lambda: None,
        )

    def _measure(self, totals: Totals) -> Mapping[str, float]:
        return self._objective.metrics(totals.sums, num_examples=totals.examples)

    def _moment(self, epoch: int = 0, *, must_save: bool = False) -> _Moment:
        state = self._parameters.snapshot()
        return _Moment(
            step=self._recorder.step,
            epoch=epoch,
            progress=self._progress(state.pop("steps_done").numpy().tolist()),
            state=state,
            # Of a compiled model the rate is part of the state.
            schedule=asdict(self._schedule) if isinstance(self._schedule, Schedule) else {},
            epoch_totals=self._epoch_totals,
            must_save=must_save,
        )

    def _save(self, moment: _Moment, metrics: Mapping[str, float] | None = None) -> int:
        self._last_save = time.monotonic()
        return self._checkpoints.save(
            moment.state, metrics=metrics, extra=moment.progress, schedule=moment.schedule
        )

    def _evaluate(self, moment: _Moment) -> None:
        """Evaluate after an epoch or the last step; in the background if training continues."""

        def measure() -> dict[str, float]:
            return self._evaluation.measure(*served_values(moment.state))

        if self._is_async:
            self._evaluating = moment, self._background.submit(measure)
            return
        with self._recorder.exclude_time():
            metrics = measure()
        self._after_evaluation(moment, metrics)

    def _finish_evaluation(self) -> None:
        if self._evaluating:
            (moment, measured), self._evaluating = self._evaluating, None
            self._after_evaluation(moment, measured.result())

    def _after_evaluation(self, moment: _Moment, metrics: Mapping[str, float]) -> None:
        """Record the metrics; call the callbacks, save a checkpoint and end training if due."""
        # Of the evaluated weights: workers have added to them steps of calls that are not finished.
        step = int(moment.state["global_step"])
        self._recorder.add_evaluation(metrics, step=step)
        if self._job.config.histograms:
            weights = self._flat_model.weights_by_name(moment.state["weights"])
            self._recorder.add_histograms(weights, step=step)
        value = self._criterion.cost(metrics)
        self._num_worse = 0 if value < self._best else self._num_worse + 1
        is_last = self._num_worse == self._job.config.patience
        if self._callbacks:
            moment = self._call_back(moment, metrics, is_last=is_last)
        should_stop = self._callbacks.should_stop
        # Without a best checkpoint, the last one is exported.
        must_save = moment.must_save or should_stop or (is_last and math.isinf(self._best))
        if must_save or value < self._best:
            self._best = min(value, self._best)
            self._save(moment, metrics)
        if is_last:
            metric, patience = self._criterion.metric, self._job.config.patience
            reason = "no longer improves" if math.isfinite(self._best) else "was never a number"
            self._finish_early(f"the {metric} {reason} (--patience {patience})")
        elif should_stop:
            self._exports_best = False
            self._finish_early("a callback has stopped it")

    def _call_back(
        self, moment: _Moment, metrics: Mapping[str, float], *, is_last: bool
    ) -> _Moment:
        """Call the callbacks after an epoch; return its state with the rate that they want.

        After the last epoch it has the weights that they leave, such as the best ones.
        """
        is_last = is_last or moment.step >= self._job.total_steps
        self._flat_model.write(*served_values(moment.state))
        train = self._measure(moment.epoch_totals)
        rate = self._callbacks.end_epoch(moment.epoch, train, metrics, is_last=is_last)
        state = dict(moment.state)
        if rate is not None:
            logger.info("step %d: a callback sets the learning rate to %g", moment.step, rate)
            self._parameters.requested_rate = rate
            state["learning_rate"] = tf.constant(rate)
        if is_last or self._callbacks.should_stop:
            self._callbacks.end()
            state["average" if "average" in state else "weights"] = self._flat_model.read_weights()
            name = "average_state" if "average_state" in state else "state"
            state[name] = self._flat_model.read_state()
            if moment.step >= self._job.total_steps:
                self._parameters.load(state)
        return replace(moment, state=state)

    def _finish_early(self, why: str) -> None:
        logger.info("training ends early: %s", why)
        with tf.io.gfile.GFile(f"{self._directory}/{_FINISHED_FILE}", "w") as file:
            which = "best" if self._exports_best else _LAST
            file.write(f"{self._recorder.step} {which}\n")
        self._job.finish.set()

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
