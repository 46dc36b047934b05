"""The train step, the same under every strategy.

A step does what Keras' `train_step` does: take a batch, compute the gradient of its mean loss,
apply the gradient, add up the metrics. Read from top to bottom, this file does it in that order:

    run           loop over the steps of one call of the graph
    contribute    compute the gradient, state change and metrics of a batch, or a part of it
    apply         count the step, clip the gradient and update the parameters

Three things differ from Keras.

- The weights are one flat vector, and so is each optimizer slot (`parameters.py`): on a parameter
  server an update is then one message and one fused operation, instead of one per variable. Of
  large embeddings a step reads and updates only the rows it needs (`embeddings.py`).
- A step has two halves. A contribution is a pure function of the parameters and the batch number,
  scaled so that contributions are simply added: of micro-batches, of the devices of a
  replica, of the replicas of a job. Then one sum is applied, as if one device had done it all.
- Every random number, in shuffling, augmentation and dropout, follows from the seed and the batch
  number. So any worker can compute any step, and a synchronous job that was killed and resumed
  ends with the same bits as one that was not (with large embeddings, from a checkpoint by steps
  or epochs).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from trainer.examples.batches import Batches
from trainer.examples.tables import gather_rows
from trainer.runtime.tracing import traced
from trainer.training.model.embeddings import Contribution, Lookups, add, scale
from trainer.training.model.flat_model import FlatModel, join_flat
from trainer.training.model.objective import Objective
from trainer.training.optimizers.base import OptimizerStep
from trainer.training.parameters import Parameters
from trainer.training.pieces import Piece
from trainer.workloads.base import Workload


class BatchPart(NamedTuple):
    """The examples of a part of a batch: their inputs, labels and weights."""

    inputs: Any
    labels: tf.Tensor
    weights: tf.Tensor | None
    share: float
    """Of the batch."""
    size: int
    """The number of examples in the batch."""


class TrainStep:
    """The train step of a model, on numbered batches of a table of examples.

    `batches` are those of each step, over all replicas. A device computes its part of one in
    `num_micro_batches` pieces one after the other, to save memory. An iteration of the graph's loop
    has `num_unrolled` steps: between devices it costs messages. `is_compiled`: compile with XLA.
    """

    def __init__(
        self,
        workload: Workload,
        model: FlatModel,
        objective: Objective,
        parameters: Parameters,
        batches: Batches,
        *,
        num_micro_batches: int = 1,
        num_unrolled: int = 1,
        is_compiled: bool = False,
    ):
        self._workload, self._model, self.objective = workload, model, objective
        self.parameters, self.batches = parameters, batches
        self._num_micro_batches, self._num_unrolled = num_micro_batches, num_unrolled
        self._load, self._compute = self._load_batch, self._differentiate
        if num_unrolled > 1:  # traced once for all steps in the graph
            self._load, self._compute = traced(self._load), traced(self._compute)
        if is_compiled:
            # Only what is pure: XLA supports neither strings nor variables of other devices.
            self._compute = traced(self._differentiate, jit_compile=True)

    def run(
        self,
        contribute: Callable[[tf.Tensor, tf.Tensor], Contribution],
        start: tf.Tensor,
        count: tf.Tensor,
        *,
        counter: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Train on batches start, …, start + count - 1; to be traced in a tf.function.

        `contribute` takes a batch's number and rows; it returns the sum of the batch's
        contributions.

        Returns the sums of the objective, of which the first is the loss, and then the number of
        steps before the first whose loss is not finite.
        """
        rows = self.batches.rows(start + tf.range(count))

        def run_step(
            offset: tf.Tensor, is_good: tf.Tensor, num_good: tf.Tensor, totals: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            sums = self.apply(contribute(start + offset, rows[offset]), counter=counter)
            is_good = tf.logical_and(is_good, tf.math.is_finite(sums[0]))
            num_good += tf.cast(is_good, tf.float32)
            return offset + 1, is_good, num_good, totals + sums

        def run_several(steps: int, *state: tf.Tensor) -> tuple[tf.Tensor, ...]:
            for _ in range(steps):
                state = run_step(*state)
            return state

        totals = tf.zeros([self.objective.num_sums])
        state: tuple[tf.Tensor, ...] = (tf.constant(0), tf.constant(True), tf.zeros([]), totals)
        for steps in dict.fromkeys([self._num_unrolled, 1]):
            state = tf.while_loop(
                lambda offset, *_, steps=steps: offset + steps <= count,
                partial(run_several, steps),
                state,
            )
        _, _, num_good, totals = state
        return tf.concat([totals, num_good[tf.newaxis]], 0)

    def contribute(
        self, table: Any, index: tf.Tensor, rows: tf.Tensor, *, part: int = 0, num_parts: int = 1
    ) -> Contribution:
        """Return the contribution of one of the nearly equal parts of batch `index`.

        The sum over all parts is the whole batch's.
        """
        batches, num_pieces = self.batches, self._num_micro_batches
        pieces = range(part * num_pieces, (part + 1) * num_pieces)
        # Before the condition, of which both branches would send messages between devices.
        values = self.parameters.pull(), self.parameters.pull_state()

        def sized(size: int) -> Contribution:
            done: list[Contribution] = []
            for piece in pieces:
                # One after the other, or they would not save memory.
                with tf.control_dependencies([contribution.gradient for contribution in done]):
                    done.append(
                        self._contribute_part(
                            values,
                            table,
                            index,
                            rows[:size],
                            part=piece,
                            num_parts=num_parts * num_pieces,
                        )
                    )
            return add(done)

        if batches.last_size == batches.width:
            return sized(batches.width)
        # Traced for each size: with shapes that are not known, steps take up to a fifth longer.
        return tf.cond(
            batches.is_last(index), partial(sized, batches.last_size), partial(sized, batches.width)
        )

    def _contribute_part(
        self,
        values: tuple[tf.Tensor, tf.Tensor],
        table: Any,
        index: tf.Tensor,
        rows: tf.Tensor,
        *,
        part: int,
        num_parts: int,
    ) -> Contribution:
        size = rows.shape[0]
        first, last = size * part // num_parts, size * (part + 1) // num_parts
        share, is_empty = (last - first) / size, first == last
        if is_empty:  # it computes an example that does not count
            last = first + 1
        part_of_batch = BatchPart(*self._load(table, index, rows, first, last), share, size)
        # Distinct for each part, or two parts would drop out the same units.
        seed = tf.stack([self.batches.seed, tf.cast(index, tf.int32) * num_parts + part])
        contribution = self._compute(*values, part_of_batch, seed)
        return scale(contribution, 0.0) if is_empty else contribution

    def _load_batch(
        self, table: Any, index: tf.Tensor, rows: tf.Tensor, first: int, last: int
    ) -> tuple[Any, tf.Tensor, tf.Tensor | None]:
        features, labels = gather_rows(table, rows[first:last])
        example_weights = self._workload.example_weights(features, labels)
        if self._workload.num_noise:
            # Drawn for the whole batch: an example's noise does not depend on the parts.
            noise = self.batches.noise(index, rows, num_noise=self._workload.num_noise)
            features = self._workload.augment(features, noise[first:last])
        return self._workload.preprocess(features), labels, example_weights

    def _differentiate(
        self, weights: tf.Tensor, state: tf.Tensor, part: BatchPart, seed: tf.Tensor
    ) -> Contribution:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            lookups = Lookups(self.parameters.fetch, tape)
            call = self._model(weights, state, part.inputs, seed=seed, lookup=lookups)
            loss, sums = self.objective.contribute(
                call, part.labels, part.weights, share=part.share, size=part.size
            )
            loss /= self._workload.loss_unit
        gradient, *of_rows = tape.gradient(
            loss, [weights, *lookups.rows], unconnected_gradients="zero"
        )
        state_and_sums = tf.concat([(call.state - state) * part.share, sums], 0)
        return Contribution(gradient, state_and_sums, lookups.gradients(of_rows))

    def apply(self, contribution: Contribution, *, counter: tf.Tensor | None = None) -> tf.Tensor:
        """Apply the contribution of a whole batch; return the sums of the objective."""
        sizes = [self._model.state_size, self.objective.num_sums]
        state_change, sums = tf.split(contribution.state_and_sums, sizes)
        gradient, rows = self._clip(contribution.gradient, contribution.rows)
        apply_gradient(
            self.parameters, gradient, rows=rows, state_change=state_change, counter=counter
        )
        return sums

    def _clip(
        self, gradient: tf.Tensor, rows: Sequence[tf.IndexedSlices]
    ) -> tuple[tf.Tensor, list[tf.IndexedSlices]]:
        """Return the gradients clipped: rows that are not among them are zero."""
        values, rules = [part.values for part in rows], self.parameters.rules
        if norm := rules.clip_norm:
            if rows:
                values, _ = tf.clip_by_global_norm([gradient, *values], norm)
                gradient, *values = values
            else:
                gradient = tf.clip_by_norm(gradient, norm)
        if rules.clip:
            small = self._model.split_small(gradient)
            clipped = rules.clip([*small, *values])
            gradient = join_flat(clipped[: len(small)])
            values = clipped[len(small) :]
        indices = [part.indices for part in rows]
        return gradient, list(map(tf.IndexedSlices, values, indices))


def apply_gradient(
    parameters: Parameters,
    gradient: tf.Tensor,
    *,
    rows: Sequence[tf.IndexedSlices] = (),
    state_change: tf.Tensor | None = None,
    counter: tf.Tensor | None = None,
) -> None:
    """Count one step, change the state and update each piece of the weights by its gradient.

    `rows` is the gradient of each large embedding, with each id once.

    Every change is an addition, a fused operation or, for optimizers in Keras' own code, a critical
    section, and runs where its variable is: workers may apply at the same time without losing an
    update.
    """
    parts, device = parameters.push(gradient, rows), parameters.pieces[0].device
    arrived = [
        getattr(part, "values", part)
        for piece, part in zip(parameters.pieces, parts, strict=True)
        if piece.device == device
    ]
    with tf.device(device):
        # Counted once the gradient has arrived: a worker that dies earlier has not done the step.
        with tf.control_dependencies(arrived):
            step = parameters.count_step(counter=counter)
        learning_rate = parameters.rules.schedule.rate(step)
        if state_change is not None and parameters.state.shape[0]:
            parameters.state.assign_add(state_change)
            if (average := parameters.rules.average) and average.has_state:
                average.move(parameters.average_state, parameters.state, step)
    for piece, part in zip(parameters.pieces, parts, strict=True):
        # Applied once the step is counted: no worker repeats a step that is in the weights.
        with tf.device(piece.device), tf.control_dependencies([step]):
            rate = piece.schedule.rate(step) if piece.schedule else learning_rate
            _update_piece(parameters, piece, part, OptimizerStep(step, rate))


def _update_piece(
    parameters: Parameters,
    piece: Piece,
    gradient: tf.Tensor | tf.IndexedSlices,
    step: OptimizerStep,
) -> None:
    decay: tf.Tensor | float = 0.0
    if piece.decay_mask is not None:
        decay = step.learning_rate * parameters.rules.weight_decay * piece.decay_mask
    if piece.late:
        piece.late.apply(gradient, step, decay=decay)
        return
    if piece.decay_mask is not None:
        piece.weights.assign_sub(decay * piece.weights)
    is_rows = isinstance(gradient, tf.IndexedSlices)
    apply = piece.optimizer.apply_rows if is_rows else piece.optimizer.apply
    apply(piece.weights, piece.slots, gradient, step)
    if piece.average is not None and (average := parameters.rules.average):
        average.move(piece.average, piece.weights, step.number)
