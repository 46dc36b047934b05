"""The train step, the same under every strategy, and the evaluation of the weights in training."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer.config.train_config import TrainConfig
from trainer.examples.tables import CHUNK_SIZE, batch_noise, batch_rows, gather_rows
from trainer.runtime.tracing import traced
from trainer.serving.evaluate import score
from trainer.training.devices import has_bfloat16
from trainer.training.parameters import Layout, Parameters
from trainer.training.schedule import Schedule
from trainer.workloads.base import Workload

logger = logging.getLogger(__name__)

_NUM_SUMS = 2


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """The constants of the train step."""

    batch_size: int
    num_examples: int
    seed: int
    schedule: Schedule
    label_smoothing: float = 0.0
    clip_norm: float = 0.0
    num_micro_batches: int = 1
    is_compiled: bool = False
    steps_per_block: int = 0


class TrainStep:
    """Trains on numbered batches of a table, pulling weights from and pushing to `parameters`.

    A step is `update`, a pure function of the parameters and the batch's number, then `apply`.
    Several replicas can compute the updates of parts of one batch: they are made to be added.
    """

    def __init__(self, workload: Workload, model: Any, parameters: Parameters, plan: StepPlan):
        self._workload, self._model, self._plan = workload, model, plan
        self._layout, self._parameters = Layout(model), parameters
        # Only the pure part is compiled: XLA knows no variables of other devices and no strings.
        self._compute = (
            traced(self._contribution, jit_compile=True) if plan.is_compiled else self._contribution
        )

    def rows(self, indices: tf.Tensor) -> tf.Tensor:
        """Returns the rows of batches: [batch_size] of one, [n, batch_size] of n."""
        plan = self._plan
        return batch_rows(
            indices,
            batch_size=plan.batch_size,
            num_examples=plan.num_examples,
            seed=plan.seed,
            steps_per_block=plan.steps_per_block,
        )

    def update(
        self,
        table: Any,
        index: tf.Tensor,
        *,
        rows: tf.Tensor | None = None,
        part: int = 0,
        num_parts: int = 1,
    ) -> tf.Tensor:
        """Returns what a part of batch `index` contributes to a step, as one vector.

        It is [gradient, change of the state, loss, correct]; the sum over all parts is the update.
        `rows` are those of the batch; for many batches they are found faster together.
        """
        num_micro_batches = self._plan.num_micro_batches
        num_parts *= num_micro_batches
        numbers = range(part * num_micro_batches, (part + 1) * num_micro_batches)
        rows = tf.ensure_shape(self.rows(index) if rows is None else rows, [self._plan.batch_size])
        updates: list[tf.Tensor] = []
        for number in numbers:
            # One after the other: that is what saves the memory.
            with tf.control_dependencies(updates):
                updates.append(self._update(table, index, rows, part=number, num_parts=num_parts))
        return tf.add_n(updates)

    def apply(self, update: tf.Tensor, *, slot: tf.Tensor | None = None) -> tf.Tensor:
        """Changes the parameters by the update of a whole batch; returns its [loss, correct].

        `slot` is where the step is counted beside `global_step`; see `Parameters.steps_done`.
        """
        sizes = [self._layout.size, self._layout.state_size, _NUM_SUMS]
        gradient, state_change, sums = tf.split(update, sizes)
        if self._plan.clip_norm:
            gradient = tf.clip_by_norm(gradient, self._plan.clip_norm)
        self._parameters.push(gradient, self._plan.schedule, state_change=state_change, slot=slot)
        return sums

    def _update(
        self, table: Any, index: tf.Tensor, rows: tf.Tensor, *, part: int, num_parts: int
    ) -> tf.Tensor:
        plan = self._plan
        size = plan.batch_size
        taken = slice(size * part // num_parts, size * (part + 1) // num_parts)
        inputs, labels = self._batch(table, index, rows, taken)
        # Random numbers of two parts must differ.
        seed = tf.stack([plan.seed, tf.cast(index, tf.int32) * num_parts + part])
        weights, state = self._parameters.pull(), self._parameters.pull_state()
        return self._compute(weights, state, inputs, labels, seed)

    def _contribution(
        self,
        weights: tf.Tensor,
        state: tf.Tensor,
        inputs: Any,
        labels: tf.Tensor,
        seed: tf.Tensor,
    ) -> tf.Tensor:
        plan = self._plan
        share = labels.shape[0] / plan.batch_size
        with tf.GradientTape() as tape:
            tape.watch(weights)
            logits, new_state, penalty = apply_model(
                self._model, self._layout, weights, state, inputs, seed=seed
            )
            losses = cross_entropies(logits, labels, smoothing=plan.label_smoothing)
            loss = tf.reduce_sum(losses) / plan.batch_size + penalty * share
        correct = tf.reduce_sum(tf.cast(_is_correct(logits, labels), tf.float32))
        sums = tf.stack([tf.reduce_sum(losses), correct])
        return tf.concat([tape.gradient(loss, weights), (new_state - state) * share, sums], 0)

    def _batch(
        self, table: Any, index: tf.Tensor, rows: tf.Tensor, taken: slice
    ) -> tuple[Any, tf.Tensor]:
        plan = self._plan
        features, labels = self._examples(table, rows[taken])
        if self._workload.num_noise:
            # The noise of the whole batch, so that an example's does not depend on the parts.
            shape = [plan.batch_size, self._workload.num_noise]
            noise = batch_noise(index, shape, seed=plan.seed)[taken]
            features = self._workload.augment(features, noise)
        return self._workload.preprocess(features), labels

    def _examples(self, table: Any, rows: tf.Tensor) -> Any:
        return gather_rows(table, rows)


class EvalStep:
    """Measures weights on tables, of which only one need be in memory at a time."""

    def __init__(self, workload: Workload, model: Any, tables: Iterable[Any]):
        self._workload, self._model, self._layout = workload, model, Layout(model)
        self._tables = tables
        self._run = traced(self._probabilities)

    def measure(self, weights: tf.Tensor, state: tf.Tensor | None = None) -> dict[str, float]:
        """Returns the workload's metrics: loss, accuracy, and AUC if there are two classes."""
        state = tf.zeros([0]) if state is None else state
        answers = [
            (self._run(table, weights, state).numpy(), table[1].numpy()) for table in self._tables
        ]
        probabilities, labels = map(np.concatenate, zip(*answers, strict=True))
        return score(probabilities, labels, list(self._workload.labels)).metrics

    def _probabilities(self, table: Any, weights: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        num_examples = table[1].shape[0]
        num_batches = -(-num_examples // CHUNK_SIZE)
        batches = tf.TensorArray(
            tf.float32,
            num_batches,
            element_shape=[None, len(self._workload.labels)],
            infer_shape=False,
        )

        def measure(number: tf.Tensor, batches: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            start = number * CHUNK_SIZE
            rows = tf.range(start, tf.minimum(start + CHUNK_SIZE, num_examples))
            features, _ = gather_rows(table, rows)
            inputs = self._workload.preprocess(features)
            logits, _, _ = apply_model(self._model, self._layout, weights, state, inputs)
            probabilities = tf.nn.softmax(tf.cast(logits, tf.float32))
            return number + 1, batches.write(number, probabilities)

        _, batches = tf.while_loop(
            lambda number, _: number < num_batches, measure, (tf.constant(0), batches)
        )
        return batches.concat()


def build_model(workload: Workload, config: TrainConfig) -> Any:
    """Returns the Keras model to train."""
    if config.mixed_precision and not has_bfloat16():
        logger.warning("--mixed-precision: no bfloat16 on this machine; computing in float32")
        return _build(workload, config, "float32")
    return _build(workload, config, "mixed_bfloat16" if config.mixed_precision else "float32")


def build_served_model(workload: Workload, config: TrainConfig) -> Any:
    """Returns the Keras model to measure and to export: of the same weights, always in float32.

    In bfloat16 an answer would depend on which other instances are in the same request.
    """
    return _build(workload, config, "float32")


def _build(workload: Workload, config: TrainConfig, policy: str) -> Any:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        return workload.build_model(config.model)
    finally:
        keras.config.set_dtype_policy(before)


def apply_model(
    model: Any,
    layout: Layout,
    weights: tf.Tensor,
    state: tf.Tensor,
    inputs: Any,
    *,
    seed: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Calls a Keras model with weights and state other than its own; trains if it has a seed.

    Returns logits, the new state, and the sum of the model's regularisation losses.
    """
    others = layout.split_state(
        state, model, seed=tf.zeros([2], tf.int32) if seed is None else seed
    )
    logits, others, losses = model.stateless_call(
        layout.split(weights), others, inputs, training=seed is not None, return_losses=True
    )
    penalty = tf.add_n(losses) if losses else tf.zeros([])
    return tf.cast(logits, tf.float32), layout.join_state(others), penalty


def cross_entropies(logits: tf.Tensor, labels: tf.Tensor, *, smoothing: float = 0.0) -> tf.Tensor:
    """Returns each example's loss; smoothing spreads that share of the truth over all classes."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    if not smoothing:
        return losses
    uniform = -tf.reduce_mean(tf.nn.log_softmax(logits), axis=1)
    return (1 - smoothing) * losses + smoothing * uniform


def _is_correct(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    return tf.argmax(logits, axis=1, output_type=labels.dtype) == labels
