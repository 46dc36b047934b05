"""The loss and metrics of a compiled model as graphs, which are exported with it."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer.runtime.tracing import traced
from trainer.training.model.flat_model import FlatModel
from trainer.training.model.objective import Objective
from trainer.workloads.base import Workload


class CompiledMetrics(tf.Module):
    """Functions that measure an exported model on raw examples: see serving.compiled."""

    def __init__(self, workload: Workload, model: FlatModel, objective: Objective):
        super().__init__()
        self._workload, self._objective = workload, objective
        self._model = model
        serialized = tf.TensorSpec([None], tf.string)
        parsed = traced(workload.parse).get_concrete_function(serialized).structured_outputs
        features, labels = tf.nest.map_structure(_spec, parsed)
        states = [tf.TensorSpec(state.shape, state.dtype) for state in objective.first_states()]
        self.begin = traced(objective.first_states, input_signature=[])
        self.add = traced(self._add, input_signature=[features, labels, states])
        number = tf.TensorSpec([], tf.float32)
        self.results = traced(self._results, input_signature=[states, number])

    def _add(self, features: Any, labels: tf.Tensor, states: Sequence[tf.Tensor]) -> Any:
        workload, model = self._workload, self._model
        encoded = workload.encode(features)
        weights = workload.evaluation_weights(encoded, labels)
        inputs = workload.preprocess(encoded)
        call = model(model.read_weights(), model.read_state(), inputs)
        return self._objective.evaluate(states, call, labels, weights)

    def _results(self, states: Sequence[tf.Tensor], num_examples: tf.Tensor) -> dict[str, Any]:
        total, *metrics = states
        loss = tf.math.divide_no_nan(total, num_examples)
        return {"loss": loss, **self._objective.results(metrics)}


def _spec(tensor: Any) -> tf.TensorSpec:
    return tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)
