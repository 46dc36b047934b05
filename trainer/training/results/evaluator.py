"""Evaluation of weights in training, and the replica that evaluates every checkpoint."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer import Json
from trainer.cluster.liveness import LivenessWatch, is_reachable
from trainer.cluster.servers import read_end
from trainer.errors import InputError, Preempted, ReplicaLostError, TrainerError
from trainer.examples.tables import CHUNK_SIZE, gather_rows
from trainer.metrics.decision import DecisionRule, sampled
from trainer.runtime.tracing import traced
from trainer.serving.outputs import main_output, output_kind
from trainer.training.checkpoint import Snapshot, list_checkpoints, read_checkpoint
from trainer.training.facts import read_facts
from trainer.training.job import Job
from trainer.training.model.flat_model import FlatModel, build_served_model
from trainer.training.model.objective import Objective
from trainer.training.results.recorder import log_evaluation, write_metrics
from trainer.workloads.base import Workload
from trainer.workloads.declarations.labels import Label
from trainer.workloads.models.line import Line

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
SHARES = np.linspace(0, 1, 21)
# Standard errors by which the loss of a smaller share may be higher, and that of the line alone;
# the first is tuned on `DEVELOPMENT` of `python -m benchmarks.defaults`.
CHANCE, CHANCE_OF_LINE = 1 / 3, 1.0


class EvalStep:
    """Evaluation of weights on tables, of which only one needs to be in memory at a time.

    `report_progress` is called at each table and at the end.
    """

    def __init__(
        self,
        workload: Workload,
        model: FlatModel,
        objective: Objective,
        tables: Iterable[Any],
        *,
        report_progress: Callable[[], None] = lambda: None,
    ):
        self._workload, self._model, self._tables = workload, model, tables
        self._objective, self._report_progress = objective, report_progress
        self._has_logits = output_kind(model.keras, workload).has_logits
        self._run = traced(self._evaluate)
        self._num_unlabelled = 0

    def measure(self, weights: tf.Tensor, state: tf.Tensor) -> dict[str, float]:
        """Return the metrics of the label's kind and, of a compiled model, its loss and metrics.

        Examples without a label are left out; their number is logged once.

        Raises:
            InputError: no example has a label.
        """
        label, results = self._workload.label, []
        for predictions, labels, _, states in self._predict(weights, state):  # noqa: B007
            results.append((label.summarized(predictions, labels), labels))
        predictions, labels = map(np.concatenate, zip(*results, strict=True))
        metrics = label.measure(predictions, labels, label.in_training)
        own = self._objective.evaluated(states, num_examples=len(labels))
        if self._objective.is_own:
            return metrics | own
        return {"loss": own["loss"], **metrics}

    def decide(self, weights: tf.Tensor, state: tf.Tensor, line: Line | None) -> DecisionRule:
        """Return the step from what the net predicts to predictions that is best on the tables."""
        label = self._workload.label
        if not (label.has_classes or line):
            return DecisionRule()

        def parts(features: Any, predictions: np.ndarray) -> np.ndarray:
            if line is None:
                return predictions
            return np.concatenate(line.parts(features, label.logits(predictions)), axis=1)

        outputs, labels = sampled(
            (parts(features, predictions), labels)
            for predictions, labels, features, _ in self._predict(weights, state, line)
        )
        if line is None:
            return label.decide(outputs, labels)
        of_line, added = np.split(outputs, 2, axis=1)
        return decide_share(label, of_line, added, labels)

    def _predict(
        self, weights: tf.Tensor, state: tf.Tensor, line: Line | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray, Any, list[tf.Tensor]]]:
        """Yield predictions, labels and features of labelled examples, and the states so far."""
        states = self._objective.first_states()
        for features, labels in self._labelled():
            inside = line.inside(features) if line else features
            predictions, states = self._run((inside, labels), weights, state, states)
            yield predictions.numpy(), labels.numpy(), features, states

    def _labelled(self) -> Iterator[Any]:
        """Yield tables without the examples that have no label, small ones of many classes."""
        label, num_labelled, num_unlabelled = self._workload.label, 0, 0
        most_rows = self._workload.num_rows_at_once
        for table in self._tables:
            self._report_progress()
            rows = np.flatnonzero(label.find_labelled(table[1].numpy()))
            num_labelled += len(rows)
            num_unlabelled += len(table[1]) - len(rows)
            if 0 < len(rows) == len(table[1]) <= most_rows:
                yield table
                continue
            for start in range(0, len(rows), most_rows):
                yield gather_rows(table, rows[start : start + most_rows])
        self._report_progress()
        if not num_labelled:
            raise InputError(
                f"no example of the eval split has the label {label.column!r}: give more examples,"
                " or other ratios of the splits"
            )
        if num_unlabelled != self._num_unlabelled:
            self._num_unlabelled = num_unlabelled
            logger.warning("%d examples of the eval split have no label", num_unlabelled)

    def _evaluate(
        self, table: Any, weights: tf.Tensor, state: tf.Tensor, states: list[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        num_examples = tf.shape(table[1])[0]
        num_chunks = -(-num_examples // CHUNK_SIZE)
        names = self._workload.labels  # none of a number
        shape = [None, len(names)] if names else [None]
        chunks = tf.TensorArray(tf.float32, num_chunks, element_shape=shape, infer_shape=False)

        def predict(number: tf.Tensor, chunks: tf.TensorArray, *states: tf.Tensor) -> Any:
            start = number * CHUNK_SIZE
            rows = tf.range(start, tf.minimum(start + CHUNK_SIZE, num_examples))
            features, labels = gather_rows(table, rows)
            example_weights = self._workload.evaluation_weights(features, labels)
            call = self._model(weights, state, self._workload.preprocess(features))
            chunks = chunks.write(number, self._predictions(call.outputs))
            after = self._objective.evaluate(states, call, labels, example_weights)
            return number + 1, chunks, *after

        _, chunks, *after = tf.while_loop(
            lambda number, *_: number < num_chunks, predict, (tf.constant(0), chunks, *states)
        )
        return chunks.concat(), after

    def _predictions(self, outputs: Any) -> tf.Tensor:
        output = main_output(outputs, self._workload)
        return self._workload.label.predictions(output, has_logits=self._has_logits)


def decide_share(
    label: Label, line: np.ndarray, added: np.ndarray, truth: np.ndarray
) -> DecisionRule:
    """Return the decision with the share of what a net adds to a line that has the least loss.

    Of shares that a few examples cannot tell apart it is the smallest, and none if they do not show
    that a line is worse: the model is rather a line.
    """

    def blend(share: float) -> np.ndarray:
        return np.asarray(label.predictions(line + share * added, has_logits=True))

    losses = [label.losses(blend(share), truth) for share in SHARES]
    least = min(losses, key=np.mean)

    def is_as_good(share: int) -> bool:
        excess, chance = losses[share] - least, CHANCE if share else CHANCE_OF_LINE
        return bool(excess.mean() <= chance * excess.std() / np.sqrt(len(truth)))

    number = next(filter(is_as_good, range(len(losses))), 0)
    decision = label.decide(blend(SHARES[number]), truth)
    means = {"line_loss": float(losses[0].mean()), "loss_before": float(losses[number].mean())}
    return replace(decision, net_share=float(SHARES[number]), **means)


def served_values(snapshot: Snapshot) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the weights and state to evaluate and export: the moving averages, if there are."""
    weights = snapshot.get("average", snapshot["weights"])
    return weights, snapshot.get("average_state", snapshot["state"])


def evaluate_checkpoints(job: Job, old_end: Json | None) -> int:
    """Evaluate checkpoints as the `evaluator` replica until the job ends; return the exit code.

    `old_end` is the announced end of a job that existed when this replica started. It may be of an
    earlier job; the chief removes it when it starts.
    """
    evaluator, cluster = _Evaluator(job), job.cluster
    # A chief without other replicas has no port: whether it is alive is not known.
    is_alone = len(cluster.replicas(*cluster.addresses)) < 2  # noqa: PLR2004
    chief = {} if is_alone else {cluster.chief_name: cluster.trainers()[cluster.chief_name]}
    watch: LivenessWatch | None = None
    deadline = time.monotonic() + job.config.start_timeout_seconds
    while True:
        if watch is None and all(map(is_reachable, chief.values())):
            watch = LivenessWatch(chief)
        lost = watch.find_lost() if watch else ""
        end = read_end(job.folders.checkpoints)
        evaluator.evaluate_new()
        if end and (end != old_end or time.monotonic() > deadline):
            logger.info("the job has ended: %s", end["message"])
            return int(end["exit_code"])
        if lost:
            raise ReplicaLostError(f"{lost}, without announcing the end of the job")
        if watch is None and time.monotonic() > deadline:
            raise TrainerError(
                f"waited {job.config.start_timeout_seconds} s for {cluster.chief_name}, and"
                f" there is no checkpoint in {job.folders.checkpoints}"
            )
        job.stop.wait(_POLL_SECONDS)
        if job.stop.is_set() and read_end(job.folders.checkpoints) in (None, old_end):
            raise Preempted("stopped by SIGTERM")


class _Evaluator:
    def __init__(self, job: Job):
        self._job = job
        self._seen: set[tuple[int, float]] = set()
        keras.utils.set_random_seed(job.config.seed)
        model = FlatModel(build_served_model(job.workload, job.config))
        objective = Objective(job.workload, model, batch_size=job.config.batch_size)
        objective.check_parts()
        self._step = EvalStep(job.workload, model, objective, job.eval_tables())

    def evaluate_new(self) -> None:
        for saved in list_checkpoints(self._job.folders.checkpoints):
            if (saved.step, saved.time) in self._seen:
                continue
            self._seen.add((saved.step, saved.time))
            if not self._job.config.fresh:  # else it may be one that the chief is about to delete
                read_facts(
                    self._job.folders.checkpoints,
                    self._job.manifest.splits["train"],
                    workload=self._job.workload,
                )
            try:
                snapshot = saved.load()
            except TrainerError as error:
                if read_checkpoint(saved.path):
                    logger.warning("step %d is not evaluated: %s", saved.step, error)
                else:
                    logger.info("step %d was deleted before it could be evaluated", saved.step)
                continue
            metrics, log_dir = self._step.measure(*served_values(snapshot)), self._job.folders.logs
            writer = tf.summary.create_file_writer(f"{log_dir}/eval")
            write_metrics(writer, f"{log_dir}/evaluator.jsonl", {"step": saved.step}, metrics)
            writer.close()
            log_evaluation(metrics, step=saved.step)
