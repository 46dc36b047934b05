"""The base of labels: everything that depends on what kind of thing a workload predicts.

Each kind is a class in a file of its own. In its methods `labels` are as `Workload.parse` returns
them, `predictions` as `summarized` returns them, and `names` are the names of the classes or
labels.
"""

import abc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from trainer.metrics.decision import DEFAULT_THRESHOLD, DecisionRule
from trainer.metrics.directions import LOWER_IS_BETTER
from trainer.metrics.evaluation import Evaluation
from trainer.metrics.linear import fit_linear
from trainer.metrics.statistics import Array, Build, Statistic, mean_of, of_all
from trainer.workloads.declarations.storage import FLOAT, TEXT

ClassWeights = Mapping[str | int | float | bool, float]
BALANCED = "balanced"


@dataclass(frozen=True)
class Label(abc.ABC):
    """The label of an example: a column of a table, or a feature of a record.

    Attributes:
        column: its name; rows of a table without a value are left out.
        missing: texts that mean a missing value, besides the empty one.
    """

    column: str = "label"
    _: KW_ONLY
    missing: tuple[str, ...] = ()

    has_classes: ClassVar[bool] = False  # an example has one of several
    is_list: ClassVar[bool] = False  # an example may have several values
    is_spelled: ClassVar[bool] = True  # True and TRUE in texts are true
    evaluated: ClassVar[str] = "probabilities"  # the field of a prediction to evaluate
    in_training: ClassVar[Sequence[str]]  # the metrics of an evaluation in training
    only_in_tests: ClassVar[Sequence[str]] = ()  # further ones of the test split
    steepest: ClassVar[float]  # a bound of the derivative of `predictions` of logits

    @property
    def name(self) -> str:
        """The label's name in examples."""
        return self.column

    @property
    def kind(self) -> str:
        """The name of the label's kind."""
        return type(self).__name__

    @property
    def storage(self) -> str:
        """The type of the values in examples; "" if it follows from the data."""
        return TEXT

    @property
    def is_number(self) -> bool:
        """True if it is a number, and has no classes."""
        return self.storage == FLOAT

    @property
    @abc.abstractmethod
    def words(self) -> str:
        """The values in words, for the manifest."""

    @property
    def values(self) -> tuple[Any, ...]:
        """The declared classes or labels."""
        return ()

    @property
    def rule_columns(self) -> tuple[str, ...]:
        """The columns from which a rule computes the label; () without one."""
        return ()

    @property
    def unit(self) -> str:
        """The unit of a number."""
        return ""

    @property
    def threshold(self) -> float | str:
        """The least probability of the second of two classes from which it is predicted."""
        return DEFAULT_THRESHOLD

    def with_threshold(self, threshold: float | str) -> Self:
        """Return the label with another threshold, if it is a setting of this kind."""
        return self

    @property
    def learns_classes(self) -> bool:
        """True if the classes or labels are learnt from the train split."""
        return False

    def names_of_classes(self) -> tuple[str, ...]:
        """Return the declared names of the classes or labels, () if they are learnt or no classes.

        A number or a truth value is named by its text.
        """
        return ()

    def check_weights(self, weights: ClassWeights | str) -> None:
        """Raise ValueError if the weights of classes do not fit; learnt classes are not checked."""
        if weights:
            raise ValueError(
                "class_weights need a label of classes, Binary or Classes; weigh examples with"
                " weight="
            )

    def stored(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the value of each class as examples have it."""
        return values

    def why_wrong(self, value: Any) -> str:
        """Return why an example cannot have a value, in words; "" if it can."""
        if not self.values or value in self.values or str(value) in self.values:
            return ""
        return f"{value!r} is not a class; allowed: {', '.join(map(str, self.values[:10]))}"

    # In the graph.

    @abc.abstractmethod
    def spec(self, classes: Sequence[Any]) -> Any:
        """Return the specification for tf.io.parse_example; `classes` are the learnt ones."""

    def as_stored(self) -> Self:
        """Return the label of a table with its values as examples store them: true, not True."""
        return self

    def numbered(self, raw: Any, classes: Sequence[Any]) -> Any:
        """Return labels as described in Workload.parse, from the stored values."""
        return raw

    def to_learn(self, raw: Any) -> Any:
        """Return the stored values as a dense tensor, from which classes are learnt."""
        return raw

    def learn(self, source: Any) -> dict[str, Any]:
        """Return what TableFacts have of the label, by the names of their fields."""
        return {"classes": tuple(sorted(source.counts(self.column)))} if self.learns_classes else {}

    def assertions(self, labels: Any, known: Any, num_classes: int) -> list[Any]:
        """Return TensorFlow's assertions that labels are valid; of `known` none is missing."""
        return []

    @abc.abstractmethod
    def output_shapes(self, num_classes: int) -> dict[tuple[int, ...], str]:
        """Return the layers with which a model may end, by the shape of their outputs."""

    @abc.abstractmethod
    def predictions(self, output: Any, *, has_logits: bool) -> Any:
        """Return values [batch] or probabilities [batch, classes] of a model's output, float32."""

    @abc.abstractmethod
    def logits(self, predictions: Any) -> Any:
        """Return logits [batch, classes], or values [batch, 1], that have these predictions."""

    @abc.abstractmethod
    def served(self, predictions: Any, decision: DecisionRule, names: Any) -> dict[str, Any]:
        """Return the fields of predictions, which are calibrated, as tensors."""

    @abc.abstractmethod
    def compiled(self, *, is_single: bool, has_logits: bool, smoothing: float) -> tuple[Any, Any]:
        """Return Keras' loss and metric of a model's output, a single number or one per class."""

    @abc.abstractmethod
    def sample(self, random: np.random.Generator, size: int, num_classes: int) -> Array:
        """Return made-up labels."""

    # Metrics.

    def decide(self, probabilities: Array, truth: Array) -> DecisionRule:
        """Return the calibration and threshold for some probabilities of the eval split."""
        return DecisionRule()

    @abc.abstractmethod
    def find_labelled(self, labels: Array) -> Array:
        """Return which of the labels are not missing: bool [n]."""

    def summarized(self, predictions: Array, labels: Array) -> Array:
        """Return what metrics need of predictions: a CHOICE of more than two classes, else all.

        All are values [examples] of a number, else probabilities [examples, labels].
        """
        return predictions

    @abc.abstractmethod
    def statistics(self, num_classes: int) -> dict[str, Build]:
        """Return the metrics by which models are compared; the first one is the default."""

    @abc.abstractmethod
    def losses(self, predictions: Array, labels: Array) -> Array:
        """Return the loss of each example, of predictions that need not be summarized."""

    def mean_loss(self, predictions: Array, labels: Array) -> Statistic:
        """Return the loss as a function of a draw."""
        return mean_of(self.losses(predictions, labels))

    def default_metric(self, num_classes: int) -> str:
        """Return the metric by which models are compared unless another one is chosen."""
        return next(iter(self.statistics(num_classes)))

    def directions(self, num_classes: int, *, in_training: bool = False) -> dict[str, bool]:
        """Return whether a lower value is better, by metric of an evaluation.

        Until the classes are learnt, `num_classes` is 0: there may be two of them, or more.
        """
        known = {*self.statistics(num_classes or 2)}
        known |= {"calibration_error"} if "brier" in known else set()
        names = ["loss", *self.in_training, *(() if in_training else self.only_in_tests)]
        return {name: name in LOWER_IS_BETTER for name in names if name in known}

    def statistic(self, metric: str, predictions: Array, labels: Array) -> Statistic:
        """Return a metric of `statistics` as a function of a draw."""
        return self._builders(predictions)[metric](self.summarized(predictions, labels), labels)

    def measure(
        self, predictions: Array, labels: Array, names: Iterable[str] = ()
    ) -> dict[str, float]:
        """Return those of the metrics that `statistics` has, of all examples; default: all."""
        known, size = self._builders(predictions), len(labels)
        predictions = self.summarized(predictions, labels)
        chosen = [name for name in names or known if name in known]
        return {name: of_all(known[name](predictions, labels), size) for name in chosen}

    def _builders(self, predictions: Array) -> dict[str, Build]:
        return self.statistics(predictions.shape[1] if predictions.ndim > 1 else 0)

    def score(
        self,
        predictions: Array,
        labels: Array,
        names: Sequence[str],
        compiled: Mapping[str, float] | None = None,
    ) -> Evaluation:
        """Return the evaluation of predictions.

        The loss and the metrics of `compiled` are the ones that the model was compiled with.
        Without them the loss is the mean cross-entropy of the true class, the mean binary
        cross-entropy of several labels at once, or the mean squared error of a number.
        """
        predictions = self.summarized(predictions, labels)
        known = self.measure(predictions, labels) | self.further_metrics(predictions, labels)
        metrics = {name: known[name] for name in self.directions(len(names)) if name in known}
        return Evaluation(
            num_examples=len(labels),
            metrics={**metrics, **(compiled or {})},
            labels=list(names),
            **self.details(predictions, labels, names),
        )

    def further_metrics(self, predictions: Array, labels: Array) -> dict[str, float]:
        """Return metrics that are not compared."""
        return {}

    @abc.abstractmethod
    def details(self, predictions: Array, labels: Array, names: Sequence[str]) -> dict[str, Any]:
        """Return the tables of an Evaluation."""

    @abc.abstractmethod
    def error_sizes(self, predictions: Array, labels: Array) -> Array:
        """Return the size of the error of each prediction, 0 for a right one."""

    def why_undefined(self, metric: str, labels: Array, names: Sequence[str], examples: str) -> str:
        """Return why a metric is not defined on some `examples`, in words; "" if unknown."""
        return ""

    # Values for people.

    @abc.abstractmethod
    def shown(self, value: Any, names: Sequence[str]) -> Any:
        """Return a label or a value of `predicted` for JSON: a class, labels, or a number."""

    def predicted(self, predictions: Array) -> Array:
        """Return predictions as labels are, of several at once their probabilities."""
        return predictions

    def confidence(self, predictions: Array) -> Sequence[float | None]:
        """Return the probability of each predicted class; None without classes."""
        return [None] * len(predictions)

    def answers(self, predictions: Array, labels: Array) -> dict[str, Any] | None:
        """Return label and prediction of each example, to compare two models by example, or None.

        Predictions are numbers, or classes and the `scores` of the second of two.
        """
        return None

    @abc.abstractmethod
    def groups(self, labels: Array, count: int) -> Array:
        """Return a group of each example, of about `count`, which differ in the label."""

    # Simple models.

    @abc.abstractmethod
    def fit_constant(self, labels: Array, num_classes: int) -> Array:
        """Return the best constant prediction for labels."""

    def fit_linear(
        self, inputs: Array, labels: Array, num_classes: int, weights: Array | None = None
    ) -> Array:
        """Return the weights of a linear regression, or of a logistic one for classes.

        They are [n + 1, classes or 1] for inputs [examples, n]; the last row is the constant.
        """
        truth = self.outputs(labels, num_classes)

        def activate(logits: Array) -> Array:
            predicted = self.predictions(logits, has_logits=True)
            return np.reshape(predicted, logits.shape)

        return fit_linear(inputs, truth, activate, bound=self.steepest, weights=weights)

    @abc.abstractmethod
    def outputs(self, labels: Array, num_classes: int) -> Array:
        """Return labels as probabilities [examples, classes], or as values [examples, 1]."""
