"""The interface of workloads."""

import abc
import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from trainer import Json
from trainer.base64_text import decode_base64
from trainer.errors import InstanceError, first_line
from trainer.runtime.lazy import tf
from trainer.workloads.declarations.labels import Label
from trainer.workloads.declarations.model_settings import ModelSetting, parse_settings
from trainer.workloads.declarations.sources import Source

Features = dict[str, Any]

# Fields that an error shows.
_NUM_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Default training settings of a model; a run's settings of these names replace them.

    Attributes:
        learning_rate: the peak of a one-cycle schedule.
        optimizer: adam, sgd, adagrad or rmsprop.
        warmup: share of all steps during which the learning rate rises.
        weight_decay: decoupled, multiplied by the learning rate; biases and norms have none.
        decay_examples: with more examples of training than this, the weight decay is less in
            proportion, as more data need less of it; 0: the same for any number.
        label_smoothing: share of each label that is spread over all classes.
        average_decay: above 0 a moving average of the weights is evaluated and exported.
        clip_norm: largest norm of the gradient; 0: no limit.
        momentum: of sgd or rmsprop; None: that optimizer's default.
        linear_optimizer: trains the model's linear part, if it has one.
        linear_learning_rate: its learning rate; None: that optimizer's default.
        min_steps: least steps of a training whose settings give neither steps nor epochs: a few
            epochs of few examples would teach nothing.
        wanted_steps: steps of such a training if they are at most 100 epochs; else 100 epochs.
        part_size: least examples of the parts of a batch that the cores of a replica without GPUs
            compute at the same time. 0: all cores compute each operation together, which takes
            longer but is what batch normalization needs: its statistics are of the batch.
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


class Workload(abc.ABC):
    """A task: its examples, its models and what a prediction request looks like.

    Features are a dict of batched tensors, raw as stored. All processing is in the graph, so the
    exported model takes raw features too: `encode` runs once per example, `preprocess` in every
    step.

    Attributes:
        name: the workload's name, as in manifest.json; a user's workload has its folder's name.
        reference: what `load_workload` loaded it from.
        source: where its raw data comes from, unless a run names files.
        label: what it predicts. The kind decides the type of labels, see `parse`, and the default
            loss, metrics and predictions.
        num_noise: random numbers that `augment` takes for each example.
        callbacks: Keras callbacks, which the replica that writes the results calls.
    """

    name: str = ""
    reference: str = ""
    source: Source | None = None
    label: Label
    num_noise: int = 0
    callbacks: Sequence[Any] = ()

    @property
    def recipes(self) -> Mapping[str, Recipe]:
        """The recipe of each model, by name; the first is the default."""
        return {"model": Recipe(learning_rate=1e-3)}

    @property
    def learns(self) -> bool:
        """True if something is learnt from the train split: `adapt` is to be called."""
        return type(self).adapt is not Workload.adapt

    @property
    def has_linear_part(self) -> bool:
        """True if the model has a linear part, which may have an optimizer of its own."""
        return False

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes (Binary, Classes) or labels (Multilabel), () for Regression.

        They come from the declaration, or from the train split like a vocabulary.
        """
        return self.label.names_of_classes()

    def with_name(self, name: str, reference: str) -> "Workload":
        """Return the workload with its name, unless it has one, and what it was loaded from."""
        if self.name and self.reference == reference:
            return self
        named = copy.copy(self)
        # Dataclasses of workloads are frozen.
        object.__setattr__(named, "name", self.name or name)
        object.__setattr__(named, "reference", reference)
        return named

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

    @abc.abstractmethod
    def parse(self, serialized: Any) -> tuple[Features, Any]:
        """Return features and labels of a batch of serialized tf.train.Examples.

        The labels of Binary and Classes are int64 [batch], -1 for an example without one, as in a
        request; of Regression float32 [batch], NaN without; of Multilabel float32 [batch, labels],
        1 for each label that the example has.
        """

    @abc.abstractmethod
    def build_model(self, model: str = "") -> Any:
        """Return a Keras model from preprocessed inputs to logits [batch, len(labels)]."""

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
        """Return the raw features of instances that `is_example` as batches.

        Raises:
            ValueError: one is no serialized tf.train.Example of this workload.
        """
        wanted = f"a tf.train.Example of {self.name}"
        records = [decode_base64(instance["b64"]) for instance in instances]
        try:
            features, _ = self.parse(tf.constant(records, tf.string))
        except UnicodeDecodeError as error:  # TensorFlow's message quotes the record
            raise ValueError(f"its 'b64' is not {wanted}") from error
        except tf.errors.InvalidArgumentError as error:
            reason = first_line(error).partition(", value:")[0]
            raise ValueError(f"its 'b64' is not {wanted}: {reason}") from error
        return {name: features[name].numpy() for name in self.input_specs()}

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

    def with_statistics(self, statistics: Json) -> "Workload":
        """Return the workload with what only the train split's statistics have.

        `statistics` are the train split's `features` in statistics.json. It is called before
        `adapt_to_statistics` or `adapt`.
        """
        return self

    def adapt(self, features: Features) -> "Workload":
        """Return the workload adapted to the train split, whose raw features are given."""
        return self

    def adapt_to_statistics(self, statistics: Json) -> "Workload | None":
        """Return the workload as `adapt` does, or None if the statistics do not suffice.

        `statistics` are the train split's `features` in statistics.json.
        """
        return None

    def facts(self) -> dict[str, Any]:
        """Return the results of `adapt`, for JSON."""
        return {}

    def with_facts(self, facts: dict[str, Any]) -> "Workload":
        """Return the workload with the results of an earlier `adapt`."""
        return self

    def settings_of(self, model: str = "") -> Mapping[str, ModelSetting]:
        """Return the settings of a model, by name."""
        return {}

    def with_settings(self, values: Mapping[str, Any], model: str = "") -> "Workload":
        """Return the workload with settings of its model; ValueError names an invalid one."""
        parse_settings(self.settings_of(model), values, workload=self.name)
        return self

    def changed_options(self) -> dict[str, Any]:
        """Return the model's settings that differ from the defaults, for JSON."""
        return {}

    def linear_variables(self, model: Any) -> list[Any]:
        """Return the variables of the linear part of a model from `build_model`."""
        return []

    def encode(self, features: Features) -> Features:
        """Return the columns of the training table, computed once per example."""
        return features

    def example_weights(self, features: Features, labels: Any) -> Any:
        """Return the weight of each example in loss and metrics, float32 [batch]; None: all 1.

        `features` are encoded (and not yet preprocessed), `labels` as `parse` returns them.
        """
        return None

    def evaluation_weights(self, features: Features, labels: Any) -> Any:
        """Return the weights in evaluations; class weights are only for training, as in Keras.

        The arguments are as of `example_weights`.
        """
        return self.example_weights(features, labels)

    def augment(self, features: Features, noise: Any) -> Features:
        """Return the encoded features of a training batch, randomly augmented.

        `noise` has `num_noise` random numbers in [0, 1) for each example.
        """
        return features


def is_example(instance: Any, fields: Iterable[str]) -> bool:
    """Return whether an instance is a serialized tf.train.Example, not an object of these fields.

    It is {"b64": …}, as in TensorFlow Serving's REST API.
    """
    return isinstance(instance, dict) and set(instance) == {"b64"} and "b64" not in fields


def as_object(instance: Any, fields: Sequence[str]) -> Any:
    """Return the bare value of a workload's only field as an object; other instances unchanged."""
    is_bare = len(fields) == 1 and not isinstance(instance, dict)
    return {fields[0]: instance} if is_bare else instance


def check_fields(instance: Any, allowed: Iterable[str]) -> None:
    """Raise ValueError if an instance is not an object or has unknown fields, besides `key`."""
    if not isinstance(instance, dict):
        names = [f'"{name}": …' for name in islice(allowed, _NUM_SHOWN)]
        form = ", ".join([*names, "…"] if len(names) == _NUM_SHOWN else names)
        raise ValueError(f"it must be an object, {{{form}}}, not {type(instance).__name__}")
    unknown = sorted(set(instance) - {*allowed, "key"})
    if unknown:
        shown = ", ".join(repr(name) for name in allowed)
        if "inputs" in unknown:
            raise ValueError(
                f"the field 'inputs' is from an old format; send {{\"{next(iter(allowed))}\": …}}: "
                f"allowed are {shown} and 'key'"
            )
        raise ValueError(f"unknown field {unknown[0]!r}; allowed are {shown} and 'key'")
