"""Base of the workloads that a user declares: their model, its settings and its recipe."""

import re
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

from trainer import Json
from trainer.runtime.lazy import keras, tf
from trainer.workloads.base import Features, Recipe, Workload
from trainer.workloads.declarations.labels import (
    BALANCED,
    Binary,
    Classes,
    ClassWeights,
    Label,
    balanced_weights,
    check_class_weights,
    given_weights,
)
from trainer.workloads.declarations.model_settings import (
    ModelSetting,
    given_arguments,
    parse_settings,
    settings_of,
)
from trainer.workloads.declarations.split import Split

Build = Callable[..., Any]
_STRUCTURE_WARNING = r"(.*\n)*.*The structure of `inputs` doesn't match"
_COUNTS = "class_counts"
WEIGHTS = "weights"  # the encoded feature that holds the weights of examples


@dataclass(frozen=True, repr=False)
class DeclaredWorkload(Workload):
    """A workload that is declared by values.

    Attributes:
        label: what it predicts.
        model: a function from the inputs to a Keras model, or several by name, the first of which
            is the default. Its keyword arguments are settings, `model.NAME`; the arguments `labels`
            and `facts`, if it has them, get the names of the classes and what was learnt from the
            train split. None: a default model.
        recipe: default training settings of the model, or of each model by name.
        weight: the column, or feature of a record, that holds the weight of each example.
        class_weights: the weight of each class by its value, 1 for others; or "balanced": the
            classes of the train split have the same sum of weights.
        callbacks: Keras callbacks, which the replica that writes the results calls.
        postprocess: a function from a prediction, a dict, to the prediction to send.
        split: the rule of the splits, unless a run has another one.
        name: default: the name of the workload's folder or module.
        settings: values of the model's settings that differ from the defaults.
        class_counts: examples of the train split by stored class, if weights are balanced.
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
    name: str = ""
    reference: str = field(default="", compare=False, repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    class_counts: Mapping[Any, int] = field(default_factory=dict)

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
        check_class_weights(self.class_weights, self.label)
        if not isinstance(self.split, Split):
            raise ValueError(
                f"split is {self.split!r}; it must be a Split, as split=Split('day', test='30d')"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name or self.reference!r})"

    @abstractmethod
    def default_models(self) -> Mapping[str, Build]:
        """Return the models of a workload that declares none, by name."""

    @abstractmethod
    def default_recipe(self) -> Recipe:
        """Return the recipe of a model that declares none."""

    @abstractmethod
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

    @property
    def learns(self) -> bool:
        """True if something is learnt from the train split."""
        return self.class_weights == BALANCED

    def with_statistics(self, statistics: Json) -> Self:
        """Return the workload with the number of examples of each class, if that is needed."""
        if self.class_weights != BALANCED or self.label.column not in statistics:
            return self
        counts = dict(map(tuple, statistics[self.label.column]["top_values"]))
        return replace(self, class_counts=counts)

    def facts(self) -> dict[str, Any]:
        """Return what was learnt from the train split, for JSON."""
        counts = [[value, count] for value, count in self.class_counts.items()]
        return {_COUNTS: counts} if counts else {}

    def with_facts(self, facts: dict[str, Any]) -> Self:
        """Return the workload with what was learnt from the train split."""
        return replace(self, class_counts=dict(map(tuple, facts.get(_COUNTS, ()))))

    def example_weights(self, features: Features, labels: Any) -> Any:
        """Return the weight of each example, float32 [batch]; None if no weights are declared."""
        weights = features.get(WEIGHTS)
        if not self.class_weights:
            return weights
        values = tf.constant(self._weights_of_classes(), tf.float32)
        of_classes = tf.gather(values, tf.maximum(labels, 0))
        return of_classes if weights is None else weights * of_classes

    def evaluation_weights(self, features: Features, labels: Any) -> Any:
        """Return the weight of each example, without its class's weight; None if there is none."""
        return features.get(WEIGHTS)

    def _weights_of_classes(self) -> list[float]:
        if not isinstance(self.class_weights, str):
            return given_weights(self.class_weights, self.label, self.class_values())
        counts = self.class_counts
        class_counts = [
            counts.get(value, counts.get(str(value), 0)) for value in self.stored_classes()
        ]
        return balanced_weights(class_counts, column=self.label.column)

    def class_values(self) -> tuple[Any, ...]:
        """Return the value of each class, as in `class_weights`; () for a Binary label."""
        return self.label.values if isinstance(self.label, Classes) else ()

    def stored_classes(self) -> Sequence[Any]:
        """Return the value of each class, as in examples."""
        return (0, 1) if isinstance(self.label, Binary) else self.class_values()


def _reserve(name: str) -> None:
    """Keep Keras from giving an input's name, such as `dense`, to a layer without a name."""
    numbered = re.fullmatch(r"(\w+?)_(\d{1,3})", name)
    kind, number = numbered.groups() if numbered else (name, "0")
    while keras.backend.get_uid(kind) <= int(number):
        pass


def check_num_noise(num_noise: Any, augment_with: Any) -> int:
    """Return how many random numbers an augmentation takes for each example; 0 without one.

    Raises:
        ValueError: there is one, but the number is not positive: it would never be called.
    """
    if augment_with is None:
        return 0
    if not isinstance(num_noise, int) or num_noise < 1:
        raise ValueError(
            f"num_noise is {num_noise!r}; say how many random numbers augment_with takes for each"
            " example, such as num_noise=2"
        )
    return num_noise


def without_counts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts without the examples of each class."""
    return {name: value for name, value in facts.items() if name != _COUNTS}
