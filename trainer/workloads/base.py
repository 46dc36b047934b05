"""What the trainer asks of a workload."""

import abc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from trainer.json_types import Json

Features = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is trained well.

    `learning_rate` is the peak of a one-cycle schedule that rises for the share `warmup` of all
    steps. `weight_decay` is decoupled, times the learning rate, and spares biases and norms.
    `average_decay` above 0 measures and exports a moving average of the weights; `clip_norm`
    above 0 bounds the norm of the gradient. A `linear_optimizer` is for the model's linear part, if
    it has one; its learning rate None is the default one.
    """

    learning_rate: float
    optimizer: str = "adam"
    warmup: float = 0.15
    weight_decay: float = 0.0
    label_smoothing: float = 0.0
    average_decay: float = 0.0
    clip_norm: float = 0.0
    momentum: float | None = None
    linear_optimizer: str = ""
    linear_learning_rate: float | None = None


class Workload(abc.ABC):
    """A classification task: its examples, its models and what a prediction request looks like.

    Features are a dict of batched tensors, raw as stored. All that is done to them is in the
    graph, so that the exported model takes raw features as well: `encode` once for an example,
    `preprocess` in every step that it is used in.
    """

    name: ClassVar[str]
    labels: ClassVar[tuple[str, ...]]
    recipes: ClassVar[dict[str, Recipe]]
    """How to train each of the models, by name; the first is the default."""
    num_noise: ClassVar[int] = 0
    options: ClassVar[tuple[str, ...]] = ()
    """Those of trainer.config.model_settings that not every workload has, and this one has."""

    def recipe(self, model: str = "") -> Recipe:
        """Returns the recipe of a model, of the default for ""; ValueError names the models."""
        model = model or self.default_model
        if model not in self.recipes:
            known = ", ".join(self.recipes)
            raise ValueError(f"{model!r} is not a model of {self.name}; use one of: {known}")
        return self.recipes[model]

    @property
    def default_model(self) -> str:
        """The model that is trained unless another is named."""
        return next(iter(self.recipes))

    @abc.abstractmethod
    def parse(self, serialized: Any) -> tuple[Features, Any]:
        """Returns features and labels of a batch of serialized tf.train.Examples.

        Labels are int64, and -1 where an example has none, as in a request.
        """

    @abc.abstractmethod
    def build_model(self, model: str = "") -> Any:
        """Returns a Keras model from preprocessed inputs to logits [batch, len(labels)]."""

    @abc.abstractmethod
    def preprocess(self, features: Features) -> Any:
        """Returns the model's inputs from encoded features."""

    @abc.abstractmethod
    def input_specs(self) -> dict[str, Any]:
        """Returns a tf.TensorSpec by name: what the exported model takes."""

    @abc.abstractmethod
    def parse_instance(self, instance: Any) -> Features:
        """Returns one request's raw features as arrays; ValueError says what is wrong."""

    @abc.abstractmethod
    def format_instance(self, features: Features) -> Any:
        """Returns one example's raw features, as arrays, as they are sent in a request."""

    def wire_forms(self, features: Features) -> dict[str, Any]:
        """Returns one example's raw features in every form that a request may have, by name."""
        return {"object": self.format_instance(features)}

    def adapt(self, features: Features) -> "Workload":
        """Returns the workload with what its model must know of the train split."""
        del features
        return self

    def adapt_to_statistics(self, statistics: Json) -> "Workload | None":
        """Return the workload as `adapt` does, or None if the statistics do not suffice.

        `statistics` are the train split's `features` in statistics.json.
        """
        del statistics
        return None

    def facts(self) -> dict[str, Any]:
        """Returns what `adapt` has found, for JSON."""
        return {}

    def with_facts(self, facts: dict[str, Any]) -> "Workload":
        """Returns the workload that had these facts."""
        del facts
        return self

    def with_options(self, options: Mapping[str, Any]) -> "Workload":
        """Returns the workload with settings of its model; ValueError tells name and mistake."""
        assert not options, options
        return self

    def changed_options(self) -> dict[str, Any]:
        """Returns the settings of its model that are not the default ones, for JSON."""
        return {}

    def linear_variables(self, model: Any) -> list[Any]:
        """Returns the variables of the linear part of a model that `build_model` has returned."""
        del model
        return []

    def encode(self, features: Features) -> Features:
        """Returns what the training table holds: what is computed once for each example."""
        return features

    def augment(self, features: Features, noise: Any) -> Features:
        """Returns the encoded features of a training batch, changed at random.

        `noise` holds `num_noise` numbers in [0, 1) for each example.
        """
        del noise
        return features


def check_fields(instance: Any, allowed: Iterable[str]) -> None:
    """Raises ValueError if an instance is no object, or has other fields than these and `key`."""
    if not isinstance(instance, dict):
        raise ValueError(f"it must be an object, not {type(instance).__name__}")
    unknown = sorted(set(instance) - {*allowed, "key"})
    if unknown:
        shown = ", ".join(repr(name) for name in allowed)
        if "inputs" in unknown:
            raise ValueError(
                f"the field 'inputs' is of an old request; write {{\"{next(iter(allowed))}\": …}}: "
                f"the fields are {shown} and 'key'"
            )
        raise ValueError(f"unknown field {unknown[0]!r}; allowed are {shown} and 'key'")
