"""The train step, the same under every strategy, and the evaluation of the weights in training."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainer.input import batch_rows, gather_rows
from trainer.parameters import Layout, Parameters, Schedule
from trainer.workloads.base import Workload

_EVAL_BATCH = 1000


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """The constants of the train step."""

    batch_size: int
    num_examples: int
    seed: int
    schedule: Schedule


class TrainStep:
    """Trains on numbered batches of a table, pulling weights from and pushing to `parameters`."""

    def __init__(self, workload: Workload, model: Any, parameters: Parameters, plan: StepPlan):
        self._workload, self._model, self._plan = workload, model, plan
        self._layout, self._parameters = Layout(model), parameters

    def run(self, table: Any, start: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """Trains on batches start, …, start + count - 1; to be traced in a tf.function.

        Returns the sums [loss, correct] over all their examples.
        """
        sums = tf.zeros([2])
        for offset in tf.range(count):
            sums += self._train(table, start + offset)
        return sums

    def _train(self, table: Any, index: tf.Tensor) -> tf.Tensor:
        plan = self._plan
        rows, seed = batch_rows(
            index, batch_size=plan.batch_size, num_examples=plan.num_examples, seed=plan.seed
        )
        features, labels = gather_rows(table, rows)
        inputs = self._workload.preprocess(self._workload.augment(features, seed))
        weights = self._parameters.pull()
        with tf.GradientTape() as tape:
            tape.watch(weights)
            logits = apply_model(self._model, self._layout, weights, inputs, training=True)
            sums = loss_and_correct(logits, labels)
            loss = sums[0] / plan.batch_size
        self._parameters.push(tape.gradient(loss, weights), plan.schedule)
        return sums


class EvalStep:
    """Measures weights on a table."""

    def __init__(self, workload: Workload, model: Any, table: Any):
        self._workload, self._model, self._layout = workload, model, Layout(model)
        self._table = table
        self._run = tf.function(self._sums)

    def measure(self, weights: tf.Tensor) -> dict[str, float]:
        """Returns loss and accuracy."""
        num_examples = len(self._table[1])
        loss, correct = self._run(weights).numpy() / num_examples
        return {"loss": float(loss), "accuracy": float(correct)}

    def _sums(self, weights: tf.Tensor) -> tf.Tensor:
        sums = tf.zeros([2])
        num_examples = len(self._table[1])
        for start in tf.range(0, num_examples, _EVAL_BATCH):
            rows = tf.range(start, tf.minimum(start + _EVAL_BATCH, num_examples))
            features, labels = gather_rows(self._table, rows)
            inputs = self._workload.preprocess(features)
            logits = apply_model(self._model, self._layout, weights, inputs, training=False)
            sums += loss_and_correct(logits, labels)
        return sums


def apply_model(
    model: Any, layout: Layout, weights: tf.Tensor, inputs: tf.Tensor, *, training: bool
) -> tf.Tensor:
    """Returns the logits of a Keras model with weights other than its own."""
    logits, _ = model.stateless_call(layout.split(weights), [], inputs, training=training)
    return logits


def loss_and_correct(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns [sum of cross-entropies, number of right answers] of a batch."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    is_correct = tf.argmax(logits, axis=1, output_type=labels.dtype) == labels
    return tf.stack([tf.reduce_sum(losses), tf.reduce_sum(tf.cast(is_correct, tf.float32))])
