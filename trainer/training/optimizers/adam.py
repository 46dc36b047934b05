"""Adam, of all rows at once or of some."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from trainer.training.optimizers.base import FusedOptimizer, OptimizerStep, Rows, to_float32

# Of the sum over the steps in which a row of an embedding got no gradient.
_MOST_TERMS, _MOST_GAPS, _TOLERANCE = 24, 4096, 1e-7


@dataclass(frozen=True, kw_only=True)
class Adam(FusedOptimizer):
    """Adam: Kingma and Ba, 2015."""

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    operation = staticmethod(tf.raw_ops.ResourceApplyAdam)
    slot_names, arguments = ("momentum", "velocity"), ("m", "v")

    def options(self, step: OptimizerStep) -> dict[str, Any]:
        exponent = tf.cast(step.number, tf.float32)
        return {
            "beta1_power": tf.pow(self.beta_1, exponent),
            "beta2_power": tf.pow(self.beta_2, exponent),
            "beta1": self.beta_1,
            "beta2": self.beta_2,
            "epsilon": self.epsilon,
        }

    @property
    def decays(self) -> Mapping[str, float]:
        return {"momentum": to_float32(self.beta_1), "velocity": to_float32(self.beta_2)}

    @property
    def has_row_rule(self) -> bool:
        """True if a few terms are enough: not if the momentum decays slower than its divisor."""
        return self._num_terms is not None

    def update(self, rows: Rows, gradient: tf.Tensor, step: OptimizerStep) -> Rows:
        momentum, velocity = rows["momentum"], rows["velocity"]
        momentum += (gradient - momentum) * (1 - self.decays["momentum"])
        velocity += (gradient**2 - velocity) * (1 - self.decays["velocity"])
        change = self.scale(step) * momentum / (tf.sqrt(velocity) + self.epsilon)
        return {"weights": rows["weights"] - change, "momentum": momentum, "velocity": velocity}

    def terms(self, rows: Rows) -> list[tf.Tensor]:
        """Return the terms of rows, each of the shape of the rows.

        After n steps the change is proportional to b^n m / (q^n x + epsilon), where x is the root
        of the velocity and q the root of its decay. With y = x / (x + epsilon) and d = 1 - q^n it
        is b^n m / (x + epsilon) / (1 - d y), a geometric series of d y.
        """
        root = tf.sqrt(rows["velocity"])
        terms = [-rows["momentum"] / (root + self.epsilon)]
        for _ in range(1, self._num_terms or 0):
            terms.append(terms[-1] * root / (root + self.epsilon))
        return terms

    def coefficients(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        momentum = self.decays["momentum"] ** gaps
        gone = 1 - self.decays["velocity"] ** (gaps / 2)
        return np.stack([momentum * gone**power for power in range(self._num_terms or 0)], axis=1)

    def scale(self, step: OptimizerStep) -> tf.Tensor:
        exponent = tf.cast(step.number, tf.float32)
        correction = tf.sqrt(1 - tf.pow(self.beta_2, exponent)) / (
            1 - tf.pow(self.beta_1, exponent)
        )
        return step.learning_rate * correction

    @cached_property
    def _num_terms(self) -> int | None:
        """The number of terms that are exact to float32; None if that is more than a few."""
        gaps = np.arange(1.0, _MOST_GAPS)
        momentum, root = self.decays["momentum"] ** gaps, self.decays["velocity"] ** (gaps / 2)
        if self.beta_1 >= root[0]:
            return None
        for number in range(1, _MOST_TERMS):
            rest = np.sum(momentum * (1 - root) ** number / root)
            if rest <= _TOLERANCE * np.sum(momentum):
                return number
        return None
