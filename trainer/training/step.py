"""The train step, the same under every strategy.

A step does what Keras' `train_step` does: take a batch, compute the gradient of its mean loss,
apply the gradient, add up the metrics. Read from top to bottom, this file does it in that order:

    run           loop over the steps of one call of the graph
    rows          draw the examples of a batch
    contribute    compute the gradient, state change and metrics of a batch, or a part of it
    apply         count the step, clip the gradient and update the parameters

Three things differ from Keras.

- The weights are one flat vector, and so is each optimizer slot (`parameters.py`): on a parameter
  server an update is then one message and one fused operation, instead of one per variable.
- A step has two halves. A contribution is a pure function of the parameters and the batch number,
  scaled so that contributions are simply added: those of micro-batches, of the devices of a
  replica, of the replicas of a job. Then one sum is applied, as if one device had done it all.
- Every random number, in shuffling, augmentation and dropout, follows from the seed and the batch
  number. So any worker can compute any step, and a synchronous job that was killed and resumed
  ends with the same bits as one that was not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from trainer.examples.tables import batch_noise, batch_rows, gather_rows
from trainer.runtime.tracing import traced
from trainer.training.model import FlatModel
from trainer.training.objective import Objective
from trainer.training.parameters import Average, Parameters, Piece
from trainer.training.schedule import KerasRate, Schedule
from trainer.workloads.base import Workload


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """The constants of the train step."""

    batch_size: int
    """Examples in a step, over all replicas."""
    num_examples: int
    seed: int
    schedule: Schedule | KerasRate
    clip_norm: float = 0.0
    """The largest norm of a gradient; 0 for any."""
    clip: Callable[[tf.Tensor], tf.Tensor] | None = None
    """Clip a gradient as a compiled optimizer does."""
    num_micro_batches: int = 1
    """Pieces that a device computes one after the other, to save memory."""
    is_compiled: bool = False
    """Compile with XLA."""
    steps_per_block: int = 0
    """Steps whose examples are in one table, if the examples are streamed; else 0."""


class TrainStep:
    """The train step of a model, on numbered batches of a table of examples."""

    def __init__(
        self,
        workload: Workload,
        model: FlatModel,
        objective: Objective,
        parameters: Parameters,
        plan: StepPlan,
    ):
        self._workload, self._model, self._objective = workload, model, objective
        self.parameters, self._plan = parameters, plan
        # Only the pure computation is compiled: XLA supports neither strings nor variables of
        # other devices.
        self._compute = (
            traced(self._differentiate, jit_compile=True)
            if plan.is_compiled
            else self._differentiate
        )

    def run(
        self,
        contribute: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        start: tf.Tensor,
        count: tf.Tensor,
        *,
        counter: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Train on batches start, …, start + count - 1; to be traced in a tf.function.

        `contribute` takes a batch's number and rows and returns the sum of its contributions.
        Returns the sums of the objective, of which the first is the loss, and then the number of
        steps before the first whose loss is not finite.
        """
        rows = self.rows(start + tf.range(count))

        def run_step(
            offset: tf.Tensor, is_good: tf.Tensor, num_good: tf.Tensor, totals: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            sums = self.apply(contribute(start + offset, rows[offset]), counter=counter)
            is_good = tf.logical_and(is_good, tf.math.is_finite(sums[0]))
            return offset + 1, is_good, num_good + tf.cast(is_good, tf.float32), totals + sums

        *_, num_good, totals = tf.while_loop(
            lambda offset, *_: offset < count,
            run_step,
            (tf.constant(0), tf.constant(True), tf.zeros([]), tf.zeros([self._objective.num_sums])),
        )
        return tf.concat([totals, num_good[tf.newaxis]], 0)

    def rows(self, indices: tf.Tensor) -> tf.Tensor:
        """Return the rows of batches: [batch_size] of one, [n, batch_size] of n of them."""
        plan = self._plan
        return batch_rows(
            indices,
            batch_size=plan.batch_size,
            num_examples=plan.num_examples,
            seed=plan.seed,
            steps_per_block=plan.steps_per_block,
        )

    def contribute(
        self,
        table: Any,
        index: tf.Tensor,
        rows: tf.Tensor,
        *,
        part: int = 0,
        num_parts: int = 1,
    ) -> tf.Tensor:
        """Return the contribution of one of the equal parts of batch `index`, as one vector.

        It is [gradient, change of the state, sums of the objective]; the sum over all parts is that
        of the whole batch.
        """
        rows = tf.ensure_shape(rows, [self._plan.batch_size])
        num_micro_batches = self._plan.num_micro_batches
        contributions: list[tf.Tensor] = []
        for number in range(part * num_micro_batches, (part + 1) * num_micro_batches):
            # One after the other, or they would not save memory.
            with tf.control_dependencies(contributions):
                contributions.append(
                    self._contribute_part(
                        table, index, rows, part=number, num_parts=num_parts * num_micro_batches
                    )
                )
        return tf.add_n(contributions)

    def _contribute_part(
        self, table: Any, index: tf.Tensor, rows: tf.Tensor, *, part: int, num_parts: int
    ) -> tf.Tensor:
        size = self._plan.batch_size
        batch = self._load_batch(
            table, index, rows, slice(size * part // num_parts, size * (part + 1) // num_parts)
        )
        # Distinct for each part, or two parts would drop out the same units.
        seed = tf.stack([self._plan.seed, tf.cast(index, tf.int32) * num_parts + part])
        weights, state = self.parameters.pull(), self.parameters.pull_state()
        return self._compute(weights, state, batch, seed)

    def _load_batch(
        self, table: Any, index: tf.Tensor, rows: tf.Tensor, part: slice
    ) -> tuple[Any, tf.Tensor, tf.Tensor | None]:
        """Return the model's inputs, labels and examples' weights of a part of a batch."""
        features, labels = gather_rows(table, rows[part])
        example_weights = self._workload.example_weights(features, labels)
        if self._workload.num_noise:
            # Drawn for the whole batch: an example's noise does not depend on the parts.
            shape = [self._plan.batch_size, self._workload.num_noise]
            noise = batch_noise(index, shape, seed=self._plan.seed)[part]
            features = self._workload.augment(features, noise)
        return self._workload.preprocess(features), labels, example_weights

    def _differentiate(
        self,
        weights: tf.Tensor,
        state: tf.Tensor,
        batch: tuple[Any, tf.Tensor, tf.Tensor | None],
        seed: tf.Tensor,
    ) -> tf.Tensor:
        """Return the contribution of some examples, given all that it depends on."""
        inputs, labels, example_weights = batch
        share = labels.shape[0] / self._plan.batch_size
        with tf.GradientTape() as tape:
            tape.watch(weights)
            call = self._model(weights, state, inputs, seed=seed)
            loss, sums = self._objective.contribute(call, labels, example_weights, share=share)
        gradient = tape.gradient(loss, weights, unconnected_gradients="zero")
        return tf.concat([gradient, (call.state - state) * share, sums], 0)

    def apply(self, contribution: tf.Tensor, *, counter: tf.Tensor | None = None) -> tf.Tensor:
        """Apply the contribution of a whole batch; return the sums of the objective."""
        sizes = [self._model.size, self._model.state_size, self._objective.num_sums]
        gradient, state_change, sums = tf.split(contribution, sizes)
        if self._plan.clip_norm:
            gradient = tf.clip_by_norm(gradient, self._plan.clip_norm)
        if self._plan.clip:
            gradient = self._plan.clip(gradient)
        apply_gradient(
            self.parameters,
            gradient,
            self._plan.schedule,
            state_change=state_change,
            counter=counter,
        )
        return sums


def apply_gradient(
    parameters: Parameters,
    gradient: tf.Tensor,
    schedule: Schedule | KerasRate,
    *,
    state_change: tf.Tensor | None = None,
    counter: tf.Tensor | None = None,
) -> None:
    """Count one step, change the state and update each piece of the weights by its gradient.

    Every change is an addition, a fused operation or, for optimizers in Keras' own code, a critical
    section, and runs where its variable is: workers may apply at the same time without losing an
    update.
    """
    first, *others = parameters.split(gradient)
    with tf.device(parameters.pieces[0].device):
        first = tf.identity(first)
        # Counted once the gradient has arrived: a worker that dies earlier has not done the step.
        with tf.control_dependencies([first]):
            step = parameters.count_step(counter=counter)
        learning_rate = schedule.rate(step)
        if state_change is not None and parameters.state.shape[0]:
            parameters.state.assign_add(state_change)
            if parameters.average and parameters.average.has_state:
                rule = parameters.average
                _move_average(parameters.average_state, parameters.state, step, rule=rule)
    for piece, part in zip(parameters.pieces, [first, *others], strict=True):
        with tf.device(piece.device):
            rate = piece.schedule.rate(step) if piece.schedule else learning_rate
            _update_piece(parameters, piece, part, step=step, learning_rate=rate)


def _update_piece(
    parameters: Parameters,
    piece: Piece,
    gradient: tf.Tensor,
    *,
    step: tf.Tensor,
    learning_rate: tf.Tensor,
) -> None:
    if piece.decay_mask is not None:
        rate = learning_rate * parameters.weight_decay
        piece.weights.assign_sub(rate * piece.decay_mask * piece.weights)
    piece.optimizer.apply(
        piece.weights, piece.slots, gradient, step=step, learning_rate=learning_rate
    )
    if piece.average is not None and parameters.average is not None:
        _move_average(piece.average, piece.weights, step, rule=parameters.average)


def _move_average(
    average: tf.Variable, values: tf.Variable, step: tf.Tensor, *, rule: Average
) -> None:
    done = tf.cast(step, tf.float32)
    # A smaller decay in the first steps, or the initial values would dominate the average.
    early = tf.where(step > 1, 1.0, 0.0) if rule.is_keras else (1 + done) / (10 + done)
    average.assign_add((1 - tf.minimum(rule.decay, early)) * (values - average))
    if rule.overwrite_every:
        is_due = step % rule.overwrite_every == 0
        values.assign(tf.where(is_due, average, values))
