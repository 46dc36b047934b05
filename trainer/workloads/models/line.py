"""A linear model beside the net of a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.runtime.lazy import tf

MAX_LINE_ROWS = 20_000  # to which a line is fitted


@dataclass(frozen=True, kw_only=True)
class Line:
    """A linear model of encoded features, which blends with the net beside it.

    A net is bounded outside the range that it has learnt from. So it predicts what is `inside`, and
    the line continues what both together say at the end of the range.

    Attributes:
        numbers: the weights of the inputs `amounts`, [numbers, outputs].
        categories: the weights of the inputs `categories`, [categories, outputs].
        constant: float [outputs].
        low, high: the range of each number in the train split.
    """

    numbers: np.ndarray
    categories: np.ndarray
    constant: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def inside(self, encoded: Mapping[str, Any]) -> dict[str, Any]:
        """Return encoded features with each number limited to its range."""
        if not len(self.numbers):
            return dict(encoded)
        return {**encoded, "amounts": tf.clip_by_value(encoded["amounts"], self.low, self.high)}

    def outputs(self, encoded: Mapping[str, Any]) -> Any:
        """Return values, or logits, float64 [batch, outputs].

        In float32 two batches of other sizes would not have the same predictions to the bit.
        """
        outputs = tf.constant(self.constant)[tf.newaxis]
        if len(self.categories):
            weights = tf.gather(tf.constant(self.categories), encoded["categories"])
            outputs += tf.reduce_sum(weights, axis=1)
        if len(self.numbers):
            outputs += tf.cast(encoded["amounts"], tf.float64) @ tf.constant(self.numbers)
        return outputs

    def parts(self, encoded: Mapping[str, Any], net: Any) -> tuple[Any, Any]:
        """Return the outputs, and what a net that predicts what is inside adds to them."""
        return self.outputs(encoded), tf.cast(net, tf.float64) - self.outputs(self.inside(encoded))
