"""The base of workloads: what every kind of data declares, and what training and serving call."""

import abc
import copy
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np

from trainer import Json
from trainer.errors import InstanceError, first_line
from trainer.request_values import decode_base64
from trainer.runtime.lazy import keras, tf
from trainer.workloads.declarations.labels import Label
from trainer.workloads.declarations.labels.base import BALANCED, ClassWeights
from trainer.workloads.declarations.model_settings import (
    ModelSetting,
    given_arguments,
    parse_settings,
    settings_of,
)
from trainer.workloads.declarations.sources import Source
from trainer.workloads.declarations.split import Split
from trainer.workloads.encoding.learning import (
    ColumnsSource,
    InsufficientError,
    StatisticsSource,
)

Features = dict[str, Any]
Build = Callable[..., Any]
_STRUCTURE_WARNING = r"(.*\n)*.*The structure of `inputs` doesn't match"
WEIGHTS = "weights"  # the encoded feature that holds the weights of examples
MIN_ROWS, MAX_VALUES = 1024, 4_000_000  # predicted at once: 16 MB


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Default training settings of a model; a run's settings of these names replace them.

    Attributes:
        learning_rate: the peak of a one-cycle schedule.
        optimizer: adam, sgd, adagrad or rmsprop.
        warmup: share of all steps during which the learning rate rises.
        weight_decay: decoupled, multiplied by the learning rate; biases and norms have none.
        decay_examples: with more examples of training than this, the weight decay is less in
            proportion; 0: the same for any number.
        label_smoothing: share of each label that is spread over all classes.
        average_decay: above 0 a moving average of the weights is evaluated and exported.
        clip_norm: largest norm of the gradient; 0: no limit.
        momentum: of sgd or rmsprop; None: that optimizer's default.
        linear_optimizer: trains the model's linear part, if it has one.
        linear_learning_rate: its learning rate; None: that optimizer's default.
        min_steps: least steps of a training whose settings give neither steps nor epochs.
        wanted_steps: steps of such a training, but at most 100 epochs.
        part_size: least examples of the parts of a batch that the cores of a replica without GPUs
            compute at the same time. 0: all cores compute each operation together, as batch
            normalization needs it.
    """

    learning_rate: float
    optimizer: str = "adam"
    warmup: float = 0.15
    weight_decay: float = 0.0
    decay_examples: int = 0
    label_smoothing: float = 0.0
    average_decay: float = 0.0
    clip_norm: float = 0.0
    momentum: float | None = None
    linear_optimizer: str = ""
    linear_learning_rate: float | None = None
    min_steps: int = 0
    wanted_steps: int = 0
    part_size: int = 0

    def decay_for(self, num_examples: int) -> float:
        """Return the weight decay of a training on so many examples."""
        most = self.decay_examples or num_examples
        return self.weight_decay * min(1.0, most / max(num_examples, 1))


@dataclass(frozen=True, repr=False)
class Workload(abc.ABC):
    """A task: its examples, its models and what a prediction request looks like.

    Features are a dict of batched tensors, raw as stored. All processing is in the graph, so the
    exported model takes raw features too: `encode` runs once per example, `preprocess` in every
    step.

    Attributes:
        label: what it predicts.
        model: a function from the inputs to a Keras model, or several by name, the first of which
            is the default. Its keyword arguments are settings, `model.NAME`, except `labels` and
            `facts`, which get the names of the classes and what was learnt from the train split.
            None: a default model.
        recipe: default training settings of the model, or of each model by name.
        weight: the column, or feature of a record, that holds the weight of each example.
        class_weights: the weight of each class by its value, 1 for others; or "balanced": the
            classes have the same sum of weights.
        callbacks: Keras callbacks, which the replica that writes the results calls.
        postprocess: a function from a prediction, a dict, to the prediction to send.
        split: the rule of the splits, unless a run has another one.
        source: where the files come from, unless a run names files.
        intended_use: what the model is for, and what it is not for; for model cards.
        name: default: the name of the workload's folder or module.
        reference: what `load_workload` loaded it from.
        settings: values of the model's settings that differ from the defaults.
        learnt: the facts of the train split: of a label that declares none the classes, if weights
            are balanced the examples of each class, and what `adapt` finds.
        num_noise: random numbers that `augment` takes for each example.
    """

    _: KW_ONLY
    label: Label
    model: Build | Mapping[str, Build] | None = None
    recipe: Recipe | Mapping[str, Recipe] | None = None
    weight: str = ""
    class_weights: ClassWeights | str = field(default_factory=dict)
    callbacks: Sequence[Any] = ()
    postprocess: Callable[[Any], Any] | None = None
    split: Split = field(default_factory=Split)
    source: Source | None = None
    intended_use: str = ""
    name: str = ""
    reference: str = field(default="", compare=False, repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    learnt: Any = field(default_factory=dict)
    num_noise: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.label, Label):
            raise ValueError(
                f"label is {self.label!r}; it must be Binary, Classes, Multilabel or Regression, as"
                " label=Binary('churned', positive='yes')"
            )
        for name, function in self.models().items():
            if not callable(function):
                raise ValueError(f"model {name!r} is {function!r}; it must be a function")
            settings_of(function)
        self.label.check_weights(self.class_weights)
        if not isinstance(self.split, Split):
            raise ValueError(
                f"split is {self.split!r}; it must be a Split, as split=Split('day', test='30d')"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name or self.reference!r})"

    def with_name(self, name: str, reference: str) -> "Workload":
        """Return the workload with its name, unless it has one, and what it was loaded from."""
        if self.name and self.reference == reference:
            return self
        named = copy.copy(self)
        # Dataclasses of workloads are frozen.
        object.__setattr__(named, "name", self.name or name)
        object.__setattr__(named, "reference", reference)
        return named

    @abc.abstractmethod
    def default_models(self) -> Mapping[str, Build]:
        """Return the models of a workload that declares none, by name."""

    @abc.abstractmethod
    def default_recipe(self) -> Recipe:
        """Return the recipe of a model that declares none."""

    @abc.abstractmethod
    def model_inputs(self) -> Any:
        """Return the argument of the functions that build the models: Keras inputs."""

    def models(self) -> Mapping[str, Build]:
        """Return the functions that build the models, by name."""
        if self.model is None:
            return self.default_models()
        if isinstance(self.model, Mapping):
            return self.model
        return {getattr(self.model, "__name__", "model"): self.model}

    @property
    def recipes(self) -> Mapping[str, Recipe]:
        """The recipe of each model, by name; the first is the default."""
        declared = self.recipe
        own = declared if isinstance(declared, Recipe) else self.default_recipe()
        by_name = declared if isinstance(declared, Mapping) else {}
        return {name: by_name.get(name, own) for name in self.models()}

    def recipe_of(self, model: str = "") -> Recipe:
        """Return the recipe of a model, "" for the default; ValueError lists the models."""
        model = model or self.default_model
        if model not in self.recipes:
            allowed = ", ".join(self.recipes)
            raise ValueError(f"{model!r} is not a model of {self.name}; allowed are {allowed}")
        return self.recipes[model]

    @property
    def default_model(self) -> str:
        """The name of the default model."""
        return next(iter(self.recipes))

    @property
    def learns(self) -> bool:
        """True if something is learnt from the train split."""
        return self.class_weights == BALANCED

    @property
    def has_linear_part(self) -> bool:
        """True if the model has a linear part, which may have an optimizer of its own."""
        return False

    @property
    def loss_unit(self) -> float:
        """The unit of the loss, by which its gradients are divided.

        Optimizers add up the squares of gradients, which are too large, or too small to count, in
        the units of some labels.
        """
        return 1.0

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes (Binary, Classes) or labels (Multilabel), () for Regression.

        They come from the declaration, or from the train split like a vocabulary.
        """
        return self.label.names_of_classes() or tuple(map(str, self.learnt_list("classes")))

    @property
    def num_rows_at_once(self) -> int:
        """The number of examples to predict at once: few of many classes, or of many columns."""
        return max(MIN_ROWS, MAX_VALUES // max(len(self.labels), self.num_numbers, 1))

    @property
    def num_numbers(self) -> int:
        """About how many numbers a model makes of an example, besides those of its classes."""
        return 0

    @property
    def evaluated_metrics(self) -> list[str]:
        """The metrics of an evaluation of the test split."""
        return [*self.label.directions(len(self.labels))]

    def build_model(self, model: str = "") -> Any:
        """Return a built Keras model, as its function returns it."""
        name = model or self.default_model
        function = self.models()[name]
        inputs = self.model_inputs()
        for input_name in inputs if isinstance(inputs, Mapping) else ():
            _reserve(input_name)
        arguments = given_arguments(function, {"labels": self.labels, "facts": self.facts()})
        built = function(inputs, **arguments, **self.settings)
        if not isinstance(built, keras.Model):
            raise ValueError(
                f"the function {name!r} of the workload {self.name!r} returned {built!r:.80}; it"
                " must return a keras.Model, such as keras.Model(inputs, outputs)"
            )
        if not built.built:
            built(inputs)
        # A model of some of the inputs, such as a Sequential, takes them by name from all of them.
        warnings.filterwarnings("ignore", message=_STRUCTURE_WARNING)
        return built

    @abc.abstractmethod
    def parse(self, serialized: Any) -> tuple[Features, Any]:
        """Return features and labels of a batch of serialized tf.train.Examples.

        The labels of Binary and Classes are int64 [batch], -1 for an example without one, as in a
        request; of Regression float32 [batch], NaN without; of Multilabel float32 [batch, labels],
        1 for each label that the example has.
        """

    @abc.abstractmethod
    def preprocess(self, features: Features) -> Any:
        """Return the model's inputs from encoded features."""

    @abc.abstractmethod
    def input_specs(self) -> dict[str, Any]:
        """Return the inputs of the exported model, a tf.TensorSpec by name."""

    @property
    def feature_names(self) -> list[str]:
        """The features by which examples can be cut into slices."""
        return list(self.input_specs())

    @abc.abstractmethod
    def parse_instance(self, instance: Any) -> Features:
        """Return the raw features of an instance as arrays; ValueError if it is invalid."""

    def plain_features(self, features: Features) -> Features:
        """Return the raw features of requests as examples have them; blanks may be cut."""
        return features

    def parse_examples(self, instances: Sequence[Any]) -> Features:
        """Return the raw features of serialized tf.train.Examples as batches; else ValueError."""
        records = [decode_base64(instance["b64"]) for instance in instances]
        try:
            features, _ = self.parse(tf.constant(records, tf.string))
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
            reason = first_line(error).partition(", value:")[0]
            raise ValueError(
                f"its 'b64' is not a tf.train.Example of {self.name}: {reason}"
            ) from error
        columns = {name: features[name].numpy() for name in self.input_specs()}
        for name, column in columns.items():
            if column.dtype.kind == "f" and np.isinf(column).any():
                raise ValueError(f"{name} is infinite in its tf.train.Example; leave it out")
        return columns

    def parse_instances(self, instances: Sequence[Any]) -> Features:
        """Return the raw features of instances as batches; InstanceError names an invalid one."""
        rows = []
        for index, instance in enumerate(instances):
            try:
                rows.append(self.parse_instance(instance))
            except (ValueError, OverflowError) as error:
                raise InstanceError(f"instance {index}: {error}") from error
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    @abc.abstractmethod
    def format_instance(self, features: Features) -> Any:
        """Return the instance of a request for one example's raw features, given as arrays."""

    def wire_forms(self, features: Features) -> dict[str, Any]:
        """Return the instance for one example in every format a request may have, by name."""
        return {"object": self.format_instance(features)}

    def with_statistics(self, statistics: Json) -> Self:
        """Return the workload with what only statistics have, if needed: examples of each class.

        `statistics` are the train split's `features` in statistics.json. It is called before
        `adapt_to_statistics` or `adapt`.
        """
        if self.class_weights != BALANCED or self.label.column not in statistics:
            return self
        return self.with_learnt(class_counts=statistics[self.label.column]["top_values"])

    def with_learnt(self, **facts: Any) -> Self:
        """Return the workload with further facts of the train split."""
        return replace(self, learnt=self.learnt | facts)

    def learnt_list(self, name: str) -> tuple[Any, ...]:
        """Return the fact `classes` or `class_counts`, () if it was not learnt."""
        return tuple(self.learnt.get(name, ()))

    def adapt(self, features: Features) -> Self:
        """Return the workload adapted to the train split, whose raw features are given."""
        return self

    def adapt_to_statistics(self, statistics: Json) -> Self | None:
        """Return the workload as `adapt` does, or None if the statistics do not suffice.

        `statistics` are the train split's `features` in statistics.json.
        """
        try:
            return self.learn_from(StatisticsSource(statistics))
        except InsufficientError:
            return None

    def learn_from(self, source: StatisticsSource | ColumnsSource) -> Self:
        """Return the workload with what a source says; InsufficientError if that is not enough."""
        raise InsufficientError

    def facts(self) -> dict[str, Any]:
        """Return what was learnt from the train split, for JSON."""
        return dict(self.learnt)

    def with_facts(self, facts: dict[str, Any]) -> Self:
        """Return the workload with what was learnt from the train split."""
        return replace(self, learnt=facts)

    def settings_of(self, model: str = "") -> Mapping[str, ModelSetting]:
        """Return the settings of a model, by name."""
        return settings_of(self.models()[model or self.default_model])

    def with_settings(self, values: Mapping[str, Any], model: str = "") -> Self:
        """Return the workload with settings of its model; ValueError names an invalid one."""
        settings = parse_settings(self.settings_of(model), values, workload=self.name)
        return replace(self, settings=settings)

    def changed_options(self) -> dict[str, Any]:
        """Return the model's settings that differ from the defaults, for JSON."""
        return {
            f"model.{name}": list(value) if isinstance(value, tuple) else value
            for name, value in self.settings.items()
        }

    def linear_variables(self, model: Any) -> list[Any]:
        """Return the variables of the linear part of a model from `build_model`."""
        return []

    def fit_line(self, features: Features, labels: Any) -> Any:
        """Return the Line beside a default model, of raw features; None if it has none."""
        return None

    def encode(self, features: Features) -> Features:
        """Return the columns of the training table, computed once per example."""
        return features

    def example_weights(self, features: Features, labels: Any) -> Any:
        """Return the weight of each example in loss and metrics, float32 [batch]; None: all 1.

        `features` are encoded (and not yet preprocessed), `labels` as `parse` returns them.
        """
        weights = features.get(WEIGHTS)
        if not self.class_weights:
            return weights
        values = tf.constant(self._weights_of_classes(), tf.float32)
        of_classes = tf.gather(values, tf.maximum(labels, 0))
        return of_classes if weights is None else weights * of_classes

    def evaluation_weights(self, features: Features, labels: Any) -> Any:
        """Return the weights in evaluations; class weights are only for training, as in Keras.

        The arguments are as of `example_weights`.
        """
        return features.get(WEIGHTS)

    def _weights_of_classes(self) -> list[float]:
        label: Any = self.label
        if not isinstance(self.class_weights, str):
            return label.weights_of(self.class_weights, self.class_values())
        return label.balanced_weights(dict(self.learnt_list("class_counts")), self.stored_classes())

    def class_values(self) -> tuple[Any, ...]:
        """Return the value of each class, as in `class_weights`; () for a Binary label."""
        return self.label.values or self.learnt_list("classes")

    def stored_classes(self) -> Sequence[Any]:
        """Return the value of each class, as in examples."""
        return self.label.stored(self.class_values())

    def augment(self, features: Features, noise: Any) -> Features:
        """Return the encoded features of a training batch, randomly augmented.

        `noise` has `num_noise` random numbers in [0, 1) for each example.
        """
        return features


def _reserve(name: str) -> None:
    """Keep Keras from giving an input's name, such as `dense`, to a layer without a name."""
    numbered = re.fullmatch(r"(\w+?)_(\d{1,3})", name)
    kind, number = numbered.groups() if numbered else (name, "0")
    while keras.backend.get_uid(kind) <= int(number):
        pass


def check_num_noise(num_noise: Any, augment_with: Any) -> int:
    """Return how many random numbers an augmentation takes for each example; 0 without one."""
    if augment_with is None:
        return 0
    if not isinstance(num_noise, int) or num_noise < 1:
        raise ValueError(
            f"num_noise is {num_noise!r}; say how many random numbers augment_with takes for each"
            " example, such as num_noise=2"
        )
    return num_noise
