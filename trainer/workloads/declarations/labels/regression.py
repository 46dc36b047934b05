"""The label Regression: a number."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from trainer.metrics.decision import DecisionRule
from trainer.metrics.evaluation import Row
from trainer.metrics.statistics import Array, Build, Statistic, errors, mean_of
from trainer.runtime.lazy import keras, tf
from trainer.workloads.declarations.labels.base import Label
from trainer.workloads.declarations.storage import FLOAT
from trainer.workloads.declarations.written import NumberLimits, Written

_NUM_DECILES = 10
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Regression(Label, Written, NumberLimits):
    """A number.

    Examples store a float32. A prediction is a value.

    Attributes:
        low, high: the possible values; rows with others are quarantined. None: any.
        unit: of the value, for messages and the report.
    """

    _: KW_ONLY
    low: float | None = None
    high: float | None = None
    unit: str = ""

    storage = FLOAT
    evaluated = "value"
    steepest = 1.0
    in_training = ("mae", "rmse", "r2")

    @property
    def words(self) -> str:
        return f"a number {self.unit}".strip()

    def why_wrong(self, value: Any) -> str:
        is_low = self.low is not None and value < self.low
        if is_low or (self.high is not None and value > self.high):
            return f"{value} is impossible; allowed: {self.allowed}"
        return ""

    def spec(self, classes: Sequence[Any]) -> Any:
        return tf.io.FixedLenFeature([], tf.float32, float("nan"))

    def learn(self, source: Any) -> dict[str, Any]:
        return {"moments": source.moments(self.column)}

    def assertions(self, labels: Any, known: Any, num_classes: int) -> list[Any]:
        return [tf.debugging.assert_all_finite(known, "a label is missing")]

    def output_shapes(self, num_classes: int) -> dict[tuple[int, ...], str]:
        return dict.fromkeys([(1,), ()], "keras.layers.Dense(1)")

    def predictions(self, output: Any, *, has_logits: bool) -> Any:
        return tf.reshape(tf.cast(output, tf.float32), [-1])

    def logits(self, predictions: Any) -> Any:
        return tf.reshape(predictions, [-1, 1])

    def served(self, predictions: Any, decision: DecisionRule, names: Any) -> dict[str, Any]:
        return {"value": predictions}

    def compiled(self, *, is_single: bool, has_logits: bool, smoothing: float) -> tuple[Any, Any]:
        return keras.losses.MeanSquaredError(), keras.metrics.MeanAbsoluteError(name="mae")

    def sample(self, random: np.random.Generator, size: int, num_classes: int) -> Array:
        return random.uniform(0.1, 1, size).astype(np.float32)

    def find_labelled(self, labels: Array) -> Array:
        return np.isfinite(labels)

    def losses(self, predictions: Array, labels: Array) -> Array:
        return errors(predictions, labels) ** 2

    def statistics(self, num_classes: int) -> dict[str, Build]:
        return {
            "rmse": _root_square_error,
            "mae": lambda predictions, labels: mean_of(np.abs(errors(predictions, labels))),
            "r2": _determination,
            "loss": self.mean_loss,
        }

    def details(self, predictions: Array, labels: Array, names: Sequence[str]) -> dict[str, Any]:
        return {"by_decile": score_deciles(predictions, labels)}

    def error_sizes(self, predictions: Array, labels: Array) -> Array:
        """Return the distance of each prediction from its label."""
        return np.abs(predictions - labels)

    def why_undefined(self, metric: str, labels: Array, names: Sequence[str], examples: str) -> str:
        if metric == "r2" and len(set(labels.tolist())) == 1:
            return f"{self.column} is {labels[0]:g} in all of {examples}"
        return ""

    def shown(self, value: Any, names: Sequence[str]) -> Any:
        return float(value)

    def answers(self, predictions: Array, labels: Array) -> dict[str, Any] | None:
        return {"labels": labels.tolist(), "predicted": predictions.tolist()}

    def groups(self, labels: Array, count: int) -> Array:
        """Return the part of the sorted labels that each one is in."""
        ranks = labels.argsort(kind="stable").argsort(kind="stable")
        return ranks * count // len(labels)

    def fit_constant(self, labels: Array, num_classes: int) -> Array:
        return np.asarray(labels.mean(dtype=np.float64))

    def outputs(self, labels: Array, num_classes: int) -> Array:
        return labels[:, None]


def score_deciles(predictions: Array, labels: Array) -> list[Row]:
    """Return a row for each tenth of the examples, by predicted value; fewer for few examples.

    It has the range of predictions (`low`, `high`), `num_examples`, the means `predicted` and
    `actual`, `residual` (the mean of label minus prediction), `mae`, and `residual_shares`: the
    residuals that 10, 25, 50, 75 and 90 % of the examples do not exceed.
    """
    order = predictions.argsort(kind="stable")
    rows: list[Row] = []
    for part in np.array_split(order, min(_NUM_DECILES, len(order))):
        predicted, actual = predictions[part].astype(np.float64), labels[part].astype(np.float64)
        residuals = actual - predicted
        rows.append(
            {
                "low": float(predicted[0]),
                "high": float(predicted[-1]),
                "num_examples": len(part),
                "predicted": float(predicted.mean()),
                "actual": float(actual.mean()),
                "residual": float(residuals.mean()),
                "mae": float(np.abs(residuals).mean()),
                "residual_shares": np.quantile(residuals, _SHARES).tolist(),
            }
        )
    return rows


def _square_error(predictions: Array, labels: Array) -> Statistic:
    return mean_of(errors(predictions, labels) ** 2)


def _root_square_error(predictions: Array, labels: Array) -> Statistic:
    square = _square_error(predictions, labels)
    return lambda counts: float(np.sqrt(square(counts)))


def _determination(predictions: Array, labels: Array) -> Statistic:
    truth = labels.astype(np.float64) - labels[0]  # small numbers, whose squares are exact
    squares, error = mean_of(truth**2), _square_error(predictions, labels)
    mean = mean_of(truth)

    def value(counts: Array) -> float:
        spread = squares(counts) - mean(counts) ** 2
        return 1 - error(counts) / spread if spread > 0 else float("nan")

    return value
