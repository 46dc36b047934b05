"""The loss and metrics that a model was compiled with, as functions of its exported model.

The code of the model is not needed: the functions are graphs, like the model's predictions.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

COMPILED = "compiled"


class CompiledScore:
    """Loss and metrics of a compiled model on the examples that were added.

    `module` has the functions `begin()`, which returns the states without examples, `add(features,
    labels, states)` and `results(states, num_examples)`, which returns metrics by name.
    """

    def __init__(self, module: Any):
        self._module, self._states, self._num_examples = module, module.begin(), 0

    def add(self, features: Mapping[str, tf.Tensor], labels: np.ndarray) -> None:
        """Add examples with labels; their features are raw, as Workload.parse returns them."""
        self._states = self._module.add(dict(features), tf.constant(labels), self._states)
        self._num_examples += len(labels)

    def results(self) -> dict[str, float]:
        """Return the metrics by name, the mean loss included; without examples only names count."""
        number = tf.constant(self._num_examples, tf.float32)
        metrics = self._module.results(self._states, number)
        return {name: float(value) for name, value in metrics.items()}
