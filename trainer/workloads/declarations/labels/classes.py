"""The labels Binary and Classes: one of several classes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np

from trainer.errors import ConfigError, did_you_mean
from trainer.metrics.class_metrics import (
    CHOICE,
    calibration_error,
    choices_of,
    count_confusion,
    macro_f1,
    true_likelihoods,
)
from trainer.metrics.decision import COSTS, DEFAULT_THRESHOLD, DecisionRule, decide
from trainer.metrics.statistics import (
    LEAST_LIKELIHOOD,
    Array,
    Build,
    Statistic,
    area,
    average_precision,
    cross_entropy,
    errors,
    mean_of,
    ratio,
)
from trainer.runtime.lazy import keras, tf
from trainer.workloads.declarations.labels.base import BALANCED, ClassWeights, Label
from trainer.workloads.declarations.labels.multilabel import binary_compiled
from trainer.workloads.declarations.storage import INT, TEXT
from trainer.workloads.declarations.written import plain_text
from trainer.workloads.encoding.lookups import FIRST, number_terms

Value = str | int | float | bool
BEST_F1 = "f1"
_TWO_CLASSES = 2
# The classes of two that must be among the examples, by metric.
NEEDED_CLASSES = {"auc": (0, 1), "pr_auc": (1,)}


def are_whole(values: Sequence[Any]) -> bool:
    """Return whether classes are stored as int64: whole numbers are, all others are texts."""
    return all(type(value) is int for value in values)


@dataclass(frozen=True)
class ClassLabel(Label):
    """One of several classes; predictions are class, label and the probabilities of all classes."""

    has_classes = True
    steepest = 0.5
    in_training = ("accuracy", "loss", "auc")
    only_in_tests = (
        *("pr_auc", "precision", "recall", "brier", "calibration_error"),
        *("cost", "f1"),
    )

    def check_weights(self, weights: ClassWeights | str) -> None:
        if isinstance(weights, str):
            if weights not in ("", BALANCED):
                raise ValueError(
                    f"class_weights is {weights!r}; it must be {BALANCED!r} or weights by class, as"
                    " {'yes': 3.0}"
                )
            return
        for value, weight in weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float):
                raise ValueError(f"class_weights: {value!r} has {weight!r}; it must be a number")
            if not 0 <= weight < math.inf:
                raise ValueError(f"class_weights: {value!r} has {weight}; it must be 0 or more")
        self.weights_of(weights, self.values)

    def weights_of(self, weights: ClassWeights, values: Sequence[Any]) -> list[float]:
        """Return the weight of each class, in the order of their values; 1 without one.

        ConfigError names a weight of no class, unless there are no values yet.
        """
        for value in weights if values else ():
            if value not in values:
                texts = list(map(repr, values))
                raise ConfigError(
                    f"class_weights: {value!r} is not a class;{did_you_mean(repr(value), texts)}"
                    f" allowed are {', '.join(texts)}"
                )
        return [float(weights.get(value, 1.0)) for value in values]

    def balanced_weights(self, counts: Mapping[Any, int], values: Sequence[Any]) -> list[float]:
        """Return weights with which each class has the same sum, and examples a mean of 1.

        `counts` are the train split's examples by stored value; ConfigError if they are unknown.
        """
        sizes = [counts.get(value, counts.get(str(value), 0)) for value in values]
        if not any(sizes):
            raise ConfigError(
                f"class_weights is {BALANCED!r}, but the examples have no statistics.json with the"
                f" counts of {self.column!r}; prepare them again, or give a weight for each class"
            )
        return [sum(sizes) / (len(sizes) * max(size, 1)) for size in sizes]

    def assertions(self, labels: Any, known: Any, num_classes: int) -> list[Any]:
        if not num_classes:
            return []
        low, high = "a label is missing or negative", f"a label is not below {num_classes}"
        return [
            tf.debugging.assert_less(labels, tf.constant(num_classes, tf.int64), high),
            tf.debugging.assert_non_negative(known, low),
        ]

    def output_shapes(self, num_classes: int) -> dict[tuple[int, ...], str]:
        return {(num_classes,): f"keras.layers.Dense({num_classes})"}

    def predictions(self, output: Any, *, has_logits: bool) -> Any:
        """Return probabilities, of a single number those of the negative and positive class."""
        output = tf.cast(output, tf.float32)
        if len(output.shape) > 1 and output.shape[-1] != 1:
            return tf.nn.softmax(output) if has_logits else output
        positive = tf.reshape(tf.sigmoid(output) if has_logits else output, [-1, 1])
        return tf.concat([1 - positive, positive], 1)

    def logits(self, predictions: Any) -> Any:
        return tf.math.log(tf.maximum(predictions, LEAST_LIKELIHOOD))

    def served(self, predictions: Any, decision: DecisionRule, names: Any) -> dict[str, Any]:
        # As `predicted` computes them.
        classes = tf.argmax(predictions, axis=1)
        if decision.threshold != DEFAULT_THRESHOLD:
            classes = tf.cast(predictions[:, 1] >= decision.threshold, tf.int64)
        return {"class": classes, "label": tf.gather(names, classes), "probabilities": predictions}

    def compiled(self, *, is_single: bool, has_logits: bool, smoothing: float) -> tuple[Any, Any]:
        losses, metrics = keras.losses, keras.metrics
        if is_single:
            return binary_compiled(has_logits=has_logits, smoothing=smoothing)
        if smoothing:
            loss = losses.CategoricalCrossentropy(from_logits=has_logits, label_smoothing=smoothing)
            return loss, metrics.CategoricalAccuracy(name="accuracy")
        loss = losses.SparseCategoricalCrossentropy(from_logits=has_logits)
        return loss, metrics.SparseCategoricalAccuracy(name="accuracy")

    def sample(self, random: np.random.Generator, size: int, num_classes: int) -> Array:
        # Not periodic: parts of the sample must have different shares of the classes.
        classes = [0, 1, 1, 1, 1, 0] if num_classes == _TWO_CLASSES else range(num_classes)
        return np.resize(classes, size)

    def find_labelled(self, labels: Array) -> Array:
        return labels >= 0

    def summarized(self, predictions: Array, labels: Array) -> Array:
        if predictions.dtype == CHOICE or predictions.shape[1] == _TWO_CLASSES:
            return predictions
        return choices_of(predictions, labels)

    def predicted(self, predictions: Array) -> Array:
        """Return the class of each example: the likeliest one."""
        if predictions.dtype == CHOICE:
            return predictions["predicted"]
        return predictions.argmax(axis=1)

    def likelihoods(self, predictions: Array) -> Array:
        """Return the probability of each example's predicted class."""
        if predictions.dtype == CHOICE:
            return predictions["likelihood"]
        return predictions[np.arange(len(predictions)), self.predicted(predictions)]

    def decide(self, probabilities: Array, truth: Array) -> DecisionRule:
        """Return the calibration and threshold for some probabilities of the eval split."""
        return decide(probabilities, truth, threshold=DEFAULT_THRESHOLD, cost={})

    def losses(self, predictions: Array, labels: Array) -> Array:
        return cross_entropy(true_likelihoods(predictions, labels))

    def statistics(self, num_classes: int) -> dict[str, Build]:
        right = self._decided(lambda predicted, labels: mean_of(predicted == labels))
        if num_classes != _TWO_CLASSES:
            return {"accuracy": right, "loss": self.mean_loss, "f1": self._decided(macro_f1)}
        return {
            "auc": lambda probabilities, labels: area(probabilities[:, 1], labels == 1),
            "loss": self.mean_loss,
            "pr_auc": lambda probabilities, labels: average_precision(
                probabilities[:, 1], labels == 1
            ),
            "brier": lambda probabilities, labels: mean_of(
                errors(probabilities[:, 1], labels) ** 2
            ),
            "accuracy": right,
            "precision": self._decided(
                lambda predicted, labels: ratio(predicted * labels == 1, predicted == 1)
            ),
            "recall": self._decided(
                lambda predicted, labels: ratio(predicted * labels == 1, labels == 1)
            ),
            "f1": self._decided(
                lambda predicted, labels: ratio(2.0 * predicted * labels, predicted + labels)
            ),
        }

    def _decided(self, build: Build) -> Build:
        """Return the statistic of predicted classes as one of predictions."""
        return lambda predictions, labels: build(self.predicted(predictions), labels)

    def further_metrics(self, predictions: Array, labels: Array) -> dict[str, float]:
        if predictions.dtype == CHOICE:
            return {}
        return {"calibration_error": calibration_error(predictions[:, 1], labels)}

    def details(self, predictions: Array, labels: Array, names: Sequence[str]) -> dict[str, Any]:
        return count_confusion(labels, self.predicted(predictions), len(names))

    def error_sizes(self, predictions: Array, labels: Array) -> Array:
        """Return the probability of each wrong class."""
        is_wrong = self.predicted(predictions) != labels
        return np.where(is_wrong, self.likelihoods(predictions), 0)

    def why_undefined(self, metric: str, labels: Array, names: Sequence[str], examples: str) -> str:
        absent = [at for at in NEEDED_CLASSES.get(metric, ()) if at not in labels]
        return f"{examples} has no {names[absent[0]]!r}" if absent else ""

    def shown(self, value: Any, names: Sequence[str]) -> Any:
        return names[value]

    def confidence(self, predictions: Array) -> Sequence[float | None]:
        return self.likelihoods(predictions).tolist()

    def answers(self, predictions: Array, labels: Array) -> dict[str, Any] | None:
        scores = [] if predictions.dtype == CHOICE else predictions[:, 1].tolist()
        predicted = self.predicted(predictions).tolist()
        return {"labels": labels.tolist(), "predicted": predicted, "scores": scores}

    def groups(self, labels: Array, count: int) -> Array:
        """Return the classes."""
        return labels

    def fit_constant(self, labels: Array, num_classes: int) -> Array:
        return np.bincount(labels, minlength=num_classes) / len(labels)

    def outputs(self, labels: Array, num_classes: int) -> Array:
        return np.eye(num_classes)[labels]


@dataclass(frozen=True)
class Binary(ClassLabel):
    """One of two classes.

    Examples store 1 for the positive class and 0 for the other one, int64. Predictions are class,
    label and the probabilities of both classes.

    Attributes:
        positive: the value of the positive class; the other value is the negative class.
        is_one_against_rest: allow more than two values: all but `positive` are the negative class.
        names: the names of the negative and the positive class; default: `not VALUE`, `VALUE`.
        spellings: values by other spellings of them in some files of a table.
        rule: computes the label from arrays of `rule_columns` by name, instead of from `column`;
            returns 0 or 1 for each row.
        rule_columns: the columns that `rule` reads; rows without one of them are quarantined.
        rule_text: the rule in words, for the manifest.
        threshold: the least probability of the positive class from which it is predicted; "f1":
            that with the highest F1 score on the eval split.
        cost: the costs of a missed positive and of a false alarm, in any unit, as
            `{"missed": 10, "false_alarm": 1}`: the threshold with the least cost on the eval split.
    """

    _: KW_ONLY
    positive: Value = 1
    is_one_against_rest: bool = False
    names: tuple[str, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict)
    rule: Any = None
    rule_columns: tuple[str, ...] = ()
    rule_text: str = ""
    threshold: float | str = DEFAULT_THRESHOLD
    cost: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        is_number = isinstance(self.threshold, int | float)
        if not (self.threshold == BEST_F1 or (is_number and 0 < float(self.threshold) < 1)):
            raise ValueError(
                f"threshold of the label {self.column!r} is {self.threshold!r}; it must be a"
                f" probability between 0 and 1, such as 0.3, or {BEST_F1!r}"
            )
        if self.cost and (set(self.cost) != set(COSTS) or min(self.cost.values()) <= 0):
            raise ValueError(
                f"cost of the label {self.column!r} is {self.cost!r}; it must have two numbers"
                ' above 0, such as {"missed": 10, "false_alarm": 1}'
            )
        if self.cost and self.threshold == BEST_F1:
            raise ValueError(
                f"the label {self.column!r} has a cost and threshold={BEST_F1!r}: give one of them"
            )

    storage = INT

    @property
    def words(self) -> str:
        return self.rule_text or f"1 if it is {self.positive!r}, else 0"

    @property
    def is_threshold_learnt(self) -> bool:
        """True if the threshold is chosen on the eval split."""
        return self.threshold == BEST_F1 or bool(self.cost and self.threshold == DEFAULT_THRESHOLD)

    def names_of_classes(self) -> tuple[str, ...]:
        """Return the names of the negative and the positive class."""
        return self.names or (f"not {self.positive}", str(self.positive))

    def why_wrong(self, value: Any) -> str:
        return "" if value in {0, 1} else f"{value} is not 0 or 1"

    def spec(self, classes: Sequence[Any]) -> Any:
        return tf.io.FixedLenFeature([], tf.int64, -1)

    def weights_of(self, weights: ClassWeights, values: Sequence[Any]) -> list[float]:
        """Return the weights of the negative and the positive class."""
        negatives = [value for value in weights if value != self.positive]
        if len(negatives) > 1:
            raise ValueError(
                f"class_weights: {negatives[0]!r} and {negatives[1]!r} are both not"
                f" {self.positive!r}, the positive class; give one weight to all other values"
            )
        negative = weights[negatives[0]] if negatives else 1.0
        return [float(negative), float(weights.get(self.positive, 1.0))]

    def stored(self, values: Sequence[Any]) -> Sequence[Any]:
        return (0, 1)

    def output_shapes(self, num_classes: int) -> dict[tuple[int, ...], str]:
        return dict.fromkeys([(1,), (2,), ()], "keras.layers.Dense(1) or Dense(2)")

    def with_threshold(self, threshold: float | str) -> Self:
        return replace(self, threshold=threshold)

    def predicted(self, predictions: Array) -> Array:
        """Return the class of each example, the second one from the threshold on.

        A threshold that is not chosen yet, which is on the eval split, counts as 0.5.
        """
        is_own = isinstance(self.threshold, float) and self.threshold != DEFAULT_THRESHOLD
        if predictions.dtype == CHOICE or not is_own:
            return super().predicted(predictions)
        return (predictions[:, 1] >= self.threshold).astype(np.int64)

    def decide(self, probabilities: Array, truth: Array) -> DecisionRule:
        threshold = None if self.is_threshold_learnt else float(self.threshold)
        return decide(probabilities, truth, threshold=threshold, cost=self.cost)

    def statistics(self, num_classes: int) -> dict[str, Build]:
        cost = {"cost": self._decided(self._mean_cost)} if self.cost else {}
        return super().statistics(num_classes) | (cost if num_classes == _TWO_CLASSES else {})

    def _mean_cost(self, predicted: Array, labels: Array) -> Statistic:
        missed, false_alarm = (predicted < labels), (predicted > labels)
        return mean_of(missed * self.cost["missed"] + false_alarm * self.cost["false_alarm"])


@dataclass(frozen=True)
class Classes(ClassLabel):
    """One of several classes.

    Examples store the value itself: a text as bytes, a whole number as int64. Predictions are
    class, label and the probabilities of all classes.

    Attributes:
        values: the classes in order; default: the values of the train split, sorted.
        names: the names of `values` in predictions and reports; default: their texts.
        spellings: values by other spellings of them in some files of a table.
    """

    _: KW_ONLY
    values: tuple[Value, ...] = ()
    names: tuple[str, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict)

    @property
    def storage(self) -> str:
        if not self.values:
            return ""
        return INT if are_whole(self.values) else TEXT

    @property
    def words(self) -> str:
        return "a class"

    @property
    def learns_classes(self) -> bool:
        return not self.values

    def names_of_classes(self) -> tuple[str, ...]:
        """Return the declared classes, () if they are learnt from the train split."""
        return self.names or tuple(map(str, self.values))

    def spec(self, classes: Sequence[Any]) -> Any:
        values = self.values or classes
        if values and are_whole(values):
            return tf.io.FixedLenFeature([], tf.int64, -1)
        return tf.io.FixedLenFeature([], tf.string, "")

    def as_stored(self) -> Self:
        if are_whole(self.values):
            return self
        return replace(self, values=tuple(plain_text(str(value)) for value in self.values))

    def numbered(self, raw: Any, classes: Sequence[Any]) -> Any:
        values = self.values or classes
        if not values:
            return tf.zeros(tf.shape(raw), tf.int64)
        if not are_whole(values):
            numbers = number_terms(raw, vocabularies=[list(map(str, values))]) - FIRST
            return tf.cast(tf.maximum(numbers, -1), tf.int64)
        matches = raw[:, tf.newaxis] == tf.constant(list(values), tf.int64)
        return tf.where(tf.reduce_any(matches, axis=1), tf.argmax(matches, axis=1), -1)
