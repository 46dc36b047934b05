"""The loss and metrics of a model by Keras' own code, as sums that the parts of a batch add up to.

A compiled model keeps its own loss and metrics. A model that is not compiled gets the usual ones
of its label's kind. Each part of a batch, on a device or a replica, contributes its share of the
loss and the change of the metrics' variables; the sum of all contributions is the whole batch's.
Not every loss and metric is such a sum: `check_parts` finds out with random numbers.
"""

import logging
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer.errors import ConfigError, did_you_mean
from trainer.serving.outputs import BY_LABEL, NUM_SAMPLED, check_output, main_output, output_kind
from trainer.training.checkpoint import Criterion
from trainer.training.model.flat_model import FlatModel, ModelCall
from trainer.training.model.targets import (
    Sample,
    check_methods,
    compile_by_label,
    format_shapes,
    has_only_main,
    ignores_a_class,
    loss_name,
    losses_of,
    make_targets,
    no_number_error,
    possible_targets,
)
from trainer.workloads.base import Workload

logger = logging.getLogger(__name__)

# Where the check cuts the sample: into unequal parts, so that their mean differs from their sum.
_CUTS = (4, 1)


class Objective:
    """The loss and metrics of a model.

    `num_sums` is the length of a contribution: [the loss of the part, summed over its examples;
    changes of the metrics' variables].
    """

    def __init__(
        self, workload: Workload, model: FlatModel, *, batch_size: int, label_smoothing: float = 0.0
    ):
        self._workload, self._keras, self._batch_size = workload, model.keras, batch_size
        self.is_own = model.keras.compiled and not hasattr(model.keras, BY_LABEL)
        # Of our own losses only; evaluations are without.
        self.is_smoothed = bool(label_smoothing) and not self.is_own
        check_methods(model.keras)
        sample = Sample(workload, model.keras)
        check_output(sample.outputs, workload)
        self.output_kind = output_kind(model.keras, workload)
        if not model.keras.compiled:
            compile_by_label(model.keras, workload, sample, label_smoothing=label_smoothing)
        self._has_only_main = has_only_main(model.keras, sample.outputs, workload)
        self._is_sparse = self._build(sample)
        self._first = [np.asarray(variable.value) for variable in model.keras.metrics_variables]
        tracker = {id(variable) for variable in model.keras._loss_tracker.variables}
        self._counted = [id(variable) not in tracker for variable in model.keras.metrics_variables]
        sizes = [size.size for size, is_in in zip(self._first, self._counted, strict=True) if is_in]
        self.num_sums = 1 + sum(sizes)
        self._loss_kind, self._only_in_evaluation = "mean", frozenset[str]()
        self._sample = sample

    def check_parts(self, *, num_parts: int = 1) -> None:
        """Find out how a batch's loss and metrics follow from the ones of its `num_parts` parts.

        Raises:
            ConfigError: the loss of a batch does not follow from the losses of its parts.
        """
        if not self.is_own:
            return
        whole = self._measure(slice(None))
        halves = [(self._measure(slice(cut)), self._measure(slice(cut, None))) for cut in _CUTS]
        losses = [(first[0], second[0]) for first, second in halves]
        self._loss_kind = _find_loss_kind(whole[0], losses)
        if ignores_a_class(self._keras):
            self._loss_kind = "whole"
        if self._loss_kind == "whole" and num_parts > 1:
            raise ConfigError(
                f"the loss {loss_name(self._keras)} of a batch is neither the mean nor the sum of"
                f" the losses of its examples, so {num_parts} devices, replicas or micro-batches"
                " cannot compute it in parts: use a loss with the reduction sum_over_batch_size, or"
                " one device without --micro-batches"
            )
        (_, first), (_, second) = halves[0]
        merged = [
            after_first + after_second - start
            for after_first, after_second, start in zip(first, second, self._first, strict=True)
        ]
        results = [self._results(values) for values in (whole[1], merged)]
        odd = {
            name
            for name, value in results[0].items()
            if not np.allclose(value, results[1][name], rtol=1e-3, atol=1e-6, equal_nan=True)
        }
        self._only_in_evaluation = frozenset(odd - {"loss"})
        if self._only_in_evaluation:
            logger.warning(
                "metrics that do not add up over parts of the examples are measured only in"
                " evaluation: %s",
                ", ".join(sorted(self._only_in_evaluation)),
            )

    def metric_names(self) -> list[str]:
        """Return the metrics of an evaluation: by the label's kind, and of `compile()`."""
        own = ["loss", *self._results(self._first)] if self.is_own else []
        return list(dict.fromkeys([*self._usual_metrics(), *own]))

    def _usual_metrics(self) -> dict[str, bool]:
        label, num_classes = self._workload.label, len(self._workload.labels)
        return label.directions(num_classes, in_training=True)

    def criterion(self, setting: str) -> Criterion:
        """Return the criterion for --best-metric: NAME, NAME:min or NAME:max.

        Raises:
            ConfigError: there is no such metric, or Keras does not know which values are good.
        """
        name, _, direction = setting.partition(":")
        known: dict[str, bool | None] = dict(self._usual_metrics())
        for metric in self._keras.metrics:
            for part in getattr(metric, "metrics", [metric]):
                ways = {"up": False, "down": True}
                known.setdefault(part.name, ways.get(getattr(part, "_direction", "")))
        for result in self._results(self._first):
            known.setdefault(
                result, next((known[end] for end in known if result.endswith(end)), None)
            )
        if name not in known or direction not in ("", "min", "max"):
            raise ConfigError(
                f"--best-metric: {setting!r} is not a metric of this model;"
                f"{did_you_mean(name, known)} it has {', '.join(known)}"
            )
        is_lower_better = direction == "min" if direction else known[name]
        if is_lower_better is None:
            raise ConfigError(
                f"--best-metric: Keras does not know whether a high or a low {name} is better; give"
                f" {name}:max or {name}:min"
            )
        return Criterion(metric=name, is_lower_better=is_lower_better)

    def contribute(
        self, call: ModelCall, labels: tf.Tensor, weights: Any, *, share: float, size: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return what a part, this share of a batch of `size`, adds to the loss and to the sums."""
        is_sum = self._loss_kind == "sum"
        penalties = [penalty * (share if is_sum else 1.0) for penalty in call.penalties]
        loss, states = self._compute(call, labels, weights, penalties, self._first)
        loss *= 1.0 if is_sum else share
        changes = [
            tf.reshape(tf.cast(after - before, tf.float32), [-1])
            for before, after, is_in in zip(self._first, states, self._counted, strict=True)
            if is_in
        ]
        return loss, tf.concat([[loss * size], *changes], 0)

    def metrics(self, sums: np.ndarray, *, num_examples: int) -> dict[str, float]:
        """Return the mean loss and the metrics of added contributions."""
        values, position = [], 1
        for before, is_in in zip(self._first, self._counted, strict=True):
            size = before.size if is_in else 0
            change = sums[position : position + size] if is_in else np.zeros(before.size)
            values.append(before + change.reshape(before.shape).astype(before.dtype))
            position += size
        results = {
            name: value
            for name, value in self._results(values).items()
            if name not in self._only_in_evaluation
        }
        return {"loss": float(sums[0]) / max(num_examples, 1), **results}

    def first_states(self) -> list[tf.Tensor]:
        """Return the start of an evaluation for `evaluate`: sum of losses, metrics' variables."""
        return [tf.zeros([]), *map(tf.constant, self._first)]

    def evaluate(
        self, states: Sequence[tf.Tensor], call: ModelCall, labels: tf.Tensor, weights: Any
    ) -> list[tf.Tensor]:
        """Return the states after the next examples of an evaluation."""
        total, *metrics = states
        num_examples = tf.cast(tf.shape(labels)[0], tf.float32)
        penalty = tf.add_n(call.penalties) if call.penalties else 0.0
        no_penalties = [tf.zeros([])]
        loss, metrics = self._compute(
            call, labels, weights, no_penalties, metrics, is_training=False
        )
        each = self._batch_size if self._loss_kind == "sum" else num_examples
        total += each * loss + num_examples * penalty
        return [total, *metrics]

    def evaluated(self, states: Sequence[tf.Tensor], *, num_examples: int) -> dict[str, float]:
        """Return the mean loss and the metrics of an evaluation."""
        total, *metrics = states
        results = self._results([value.numpy() for value in metrics])
        return {"loss": float(total) / max(num_examples, 1), **results}

    def _compute(
        self,
        call: ModelCall,
        labels: tf.Tensor,
        weights: Any,
        penalties: Sequence[tf.Tensor],
        states: Sequence[Any],
        *,
        is_training: bool = True,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Return the loss of some examples, and the metrics' variables after them."""
        # As Keras' trainer for JAX hands the penalties of a stateless call to `compute_loss`.
        self._keras._losses_override = list(penalties)
        targets, outputs = self._compared(call.outputs, labels)
        try:
            loss, (_, _, after) = self._keras.stateless_compute_loss(
                call.weights,
                call.non_trainable,
                list(map(tf.convert_to_tensor, states)),
                x=call.inputs,
                y=targets,
                y_pred=outputs,
                sample_weight=weights,
                training=is_training,
            )
        finally:
            self._keras._losses_override = []
        variables = self._keras.metrics_variables
        with keras.StatelessScope(list(zip(variables, after, strict=True))) as scope:
            self._keras.compute_metrics(call.inputs, targets, outputs, weights)
        return loss, [scope.get_current_value(variable) for variable in variables]

    def results(self, states: Sequence[Any]) -> dict[str, tf.Tensor]:
        """Return the metrics, float32 [], for these values of their variables."""
        variables = self._keras.metrics_variables
        values = list(map(tf.convert_to_tensor, states))
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            # Read here: a result may be a variable itself.
            tensors = {
                name: tf.cast(keras.ops.convert_to_tensor(value), tf.float32)
                for name, value in self._keras.get_metrics_result().items()
            }
        results: dict[str, tf.Tensor] = {}
        for name, numbers in tensors.items():
            if numbers.shape.rank:
                several = tf.unstack(tf.reshape(numbers, [-1]))
                results |= {f"{name}_{at}": number for at, number in enumerate(several)}
            elif name != "loss":
                results[name] = numbers
        return results

    def _results(self, states: Sequence[Any]) -> dict[str, float]:
        return {name: float(value) for name, value in self.results(states).items()}

    def _compared(
        self, outputs: Any, labels: tf.Tensor, *, is_sparse: bool | None = None
    ) -> tuple[Any, Any]:
        if self._has_only_main:
            outputs = main_output(outputs, self._workload)
        form = self._is_sparse if is_sparse is None else is_sparse
        return make_targets(self._workload, outputs, labels, is_sparse=form), outputs

    def _build(self, sample: Sample) -> bool:
        """Create the metrics' variables; return whether labels are class numbers, not 0/1."""
        loss, error = self._keras._compile_loss, None
        if any(
            getattr(compiled, "reduction", "sum") in (None, "none")
            for compiled in losses_of(self._keras)
        ):
            raise no_number_error(self._keras)
        for is_sparse in possible_targets(self._keras, self._workload):
            compared = self._compared(sample.outputs, sample.labels, is_sparse=is_sparse)
            arguments = (sample.inputs, *compared, sample.weights)
            try:
                value = self._keras._compute_loss(*arguments, training=True)
            except Exception as first:  # whatever a loss of the user's own raises
                error = error or first
                if loss is not None:
                    loss.built = False
                continue
            if len(value.shape):
                raise no_number_error(self._keras)
            self._build_metrics(arguments, is_sparse=is_sparse)
            return is_sparse
        raise ConfigError(
            f"the loss {loss_name(self._keras)} does not fit the label"
            f" {self._workload.label.column!r} ({self._workload.label.kind}) and the"
            f" model's output {format_shapes(sample.outputs)}: {error}"
        ) from error

    def _build_metrics(self, arguments: tuple[Any, ...], *, is_sparse: bool) -> None:
        try:
            self._keras.compute_metrics(*arguments)
        except Exception as error:
            _, targets, outputs, _ = arguments
            form = "class numbers" if is_sparse else "numbers"
            raise ConfigError(
                f"a metric of the model does not fit its labels, {form} {format_shapes(targets)},"
                f" as the loss {loss_name(self._keras)} takes them, and its output"
                f" {format_shapes(outputs)}: {error}; use a metric of this form, or another loss"
            ) from error
        self._keras.reset_metrics()

    def _measure(self, rows: slice) -> tuple[float, list[Any]]:
        sample = self._sample
        inputs, outputs = keras.tree.map_structure(
            lambda column: column[rows], (sample.inputs, sample.random_outputs)
        )
        call = ModelCall(
            inputs=inputs,
            outputs=outputs,
            state=tf.zeros([0]),
            penalties=[],
            weights=[variable.value for variable in self._keras.trainable_variables],
            non_trainable=[variable.value for variable in self._keras.non_trainable_variables],
        )
        weights = None if sample.weights is None else sample.weights[rows]
        labels = sample.labels[rows]
        loss, states = self._compute(call, labels, weights, [tf.zeros([])], self._first)
        return float(loss), [np.asarray(state) for state in states]


def _find_loss_kind(whole: float, parts: Sequence[tuple[float, float]]) -> str:
    """Return how a batch's loss follows from the losses of its parts, for each of `_CUTS`."""
    shares = [cut / NUM_SAMPLED for cut in _CUTS]
    means = [
        share * first + (1 - share) * second
        for share, (first, second) in zip(shares, parts, strict=True)
    ]
    if np.allclose(whole, means, rtol=1e-4):
        return "mean"
    sums = [first + second for first, second in parts]
    return "sum" if np.allclose(whole, sums, rtol=1e-4) else "whole"
