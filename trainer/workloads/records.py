"""Records: TFRecord files of tf.train.Examples that exist already."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from trainer.request_values import as_array, as_object, bytes_as_json, check_fields, is_example
from trainer.runtime.lazy import keras, tf
from trainer.workloads.base import WEIGHTS, Build, Features, Recipe, Workload, check_num_noise
from trainer.workloads.encoding.learning import ColumnsSource, StatisticsSource
from trainer.workloads.models.dense import dense

DTYPES = ("float32", "int64", "string")


@dataclass(frozen=True)
class Values:
    """A feature of a record, as tf.io.FixedLenFeature, which may be used instead.

    Attributes:
        dtype: float32, int64 or string (bytes).
        shape: of the values of one record.
        default_value: of a record without the feature; None: it must have it.
    """

    dtype: str = "float32"
    shape: Sequence[int] = ()
    default_value: Any = None


@dataclass(frozen=True, repr=False)
class Records(Workload):
    """TFRecords of any tf.train.Examples.

    Models get a dict of Keras inputs by feature, or by what `encode_with` returns.

    Attributes:
        features: the features by name, Values or tf.io.FixedLenFeature; without the label.
        encode_with: a function from a batch of features by name to the inputs of the model by
            name, in TensorFlow; it becomes part of the exported graph.
        augment_with: a function from the encoded features of a training batch, and random numbers
            from 0 to 1, [batch, num_noise], to changed ones.
        num_noise: how many random numbers `augment_with` takes for each example.
    """

    features: Mapping[str, Any]
    _: KW_ONLY
    encode_with: Callable[[Features], Features] | None = None
    augment_with: Callable[[Features, Any], Features] | None = None
    num_noise: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.features, Mapping) or not self.features:
            raise ValueError(
                "features must be a dict of Values or tf.io.FixedLenFeature by name, as"
                " {'x': Values('float32', [128])}"
            )
        values = {name: _as_values(name, spec) for name, spec in self.features.items()}
        if self.label.column in values:
            raise ValueError(f"features: {self.label.column!r} is the label; remove it")
        if "key" in values:
            raise ValueError("features: 'key' is reserved for the key of a request; rename it")
        object.__setattr__(self, "features", values)
        check_num_noise(self.num_noise, self.augment_with)

    @property
    def learns(self) -> bool:
        return super().learns or self.label.learns_classes

    def default_models(self) -> Mapping[str, Build]:
        return {"dense": dense}

    def default_recipe(self) -> Recipe:
        return Recipe(learning_rate=1e-3, min_steps=500)

    def parse(self, serialized: Any) -> tuple[Features, Any]:
        """Return features by name, and labels.

        Until the classes of a label are learnt, it is also one of the features.

        Raises:
            tf.errors.InvalidArgumentError: a record lacks a feature, or it has another shape.
        """
        spec = {
            name: tf.io.FixedLenFeature(list(values.shape), values.dtype, _default(values))
            for name, values in self.features.items()
        }
        label = self.label.column
        classes = self.learnt_list("classes")
        spec[label] = self.label.spec(classes)
        if self.weight and self.weight not in spec:
            spec[self.weight] = tf.io.FixedLenFeature([], tf.float32, 1.0)
        features = tf.io.parse_example(serialized, spec)
        raw = features.pop(label)
        if self.label.learns_classes and not classes:
            features[label] = self.label.to_learn(raw)
        return features, self.label.numbered(raw, classes)

    def adapt(self, features: Features) -> Self:
        return self.learn_from(ColumnsSource(features))

    def learn_from(self, source: StatisticsSource | ColumnsSource) -> Self:
        if not self.label.learns_classes:
            return self
        return self.with_learnt(classes=list(self.label.learn(source)["classes"]))

    def encode(self, features: Features) -> Features:
        """Return the inputs of the model by name, and the weights of examples."""
        inputs = {name: features[name] for name in self.features}
        encoded = self.encode_with(inputs) if self.encode_with else inputs
        if not isinstance(encoded, Mapping):
            raise ValueError(
                f"encode_with of {self.name} returned {type(encoded).__name__}; it must return a"
                " dict of tensors by name"
            )
        weights = {WEIGHTS: features[self.weight]} if self.weight in features else {}
        return {**encoded, **weights}

    def augment(self, features: Features, noise: Any) -> Features:
        if self.augment_with is None:
            return features
        return {**features, **self.augment_with(features, noise)}

    def preprocess(self, features: Features) -> Any:
        return {name: values for name, values in features.items() if name != WEIGHTS}

    def model_inputs(self) -> Any:
        """Return Keras inputs by name, of the shapes and types that `encode` returns."""
        graph = tf.function(self.encode, autograph=False)
        encoded = graph.get_concrete_function(self.input_specs()).structured_outputs
        return {
            # Keras' names have no slashes, those of the dict do.
            name: keras.Input(
                spec.shape[1:], dtype=spec.dtype.name, name=None if "/" in name else name
            )
            for name, spec in encoded.items()
        }

    @property
    def feature_names(self) -> list[str]:
        return list(self.features)

    def input_specs(self) -> dict[str, Any]:
        return {
            name: tf.TensorSpec([None, *values.shape], values.dtype, name=name)
            for name, values in self.features.items()
        }

    def parse_instance(self, instance: Any) -> Features:
        """Return the features of an object, or of a serialized tf.train.Example.

        Those with a default may be absent or null.
        """
        if is_example(instance, self.features):
            return {name: values[0] for name, values in self.parse_examples([instance]).items()}
        instance = as_object(instance, self.feature_names)
        check_fields(instance, self.features)
        return {
            name: _parse(name, spec, instance.get(name)) for name, spec in self.features.items()
        }

    def format_instance(self, features: Features) -> Any:
        """Return the features as nested lists; bytes that are no text as {"b64": …}."""
        return {name: bytes_as_json(np.asarray(features[name]).tolist()) for name in self.features}


def _as_values(name: str, spec: Any) -> Values:
    dtype = getattr(getattr(spec, "dtype", None), "name", getattr(spec, "dtype", None))
    if dtype not in DTYPES:
        raise ValueError(
            f"features: {name} is {spec!r:.80}; it must be Values or tf.io.FixedLenFeature of"
            f" {', '.join(DTYPES)}"
        )
    if not hasattr(spec, "shape"):
        raise ValueError(
            f"features: {name} has any number of values; give it a shape, as Values({dtype!r}, [8])"
        )
    return Values(dtype, tuple(spec.shape), spec.default_value)


def _default(values: Values) -> Any:
    """Return the default for tf.io.FixedLenFeature, of the values' shape."""
    if values.default_value is None:
        return None
    kind = np.dtype(object if values.dtype == "string" else values.dtype)
    return np.broadcast_to(np.asarray(values.default_value, kind), values.shape).tolist()


def _parse(name: str, values: Values, sent: Any) -> np.ndarray:
    if sent is None:
        if values.default_value is None:
            raise ValueError(f"the field {name!r} is missing")
        sent = _default(values)
        kind = object if values.dtype == "string" else values.dtype
        array = np.asarray(sent, kind)
        return np.vectorize(_as_bytes, otypes=[object])(array) if kind is object else array
    shape = tuple(values.shape)
    try:
        array = as_array(sent, holds_texts=values.dtype == "string")
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    if values.dtype == "string":
        return array
    if array.size and not _has_numbers(array, values.dtype):
        wanted = "whole numbers" if values.dtype == "int64" else "numbers"
        raise ValueError(f"{name} is {sent!r:.60}; it must hold {wanted} of type {values.dtype}")
    return array.astype(values.dtype)


def _has_numbers(array: np.ndarray, dtype: str) -> bool:
    """Return whether an array has only numbers that a type can represent, if rounded."""
    if dtype == "int64":
        return array.dtype.kind in "iu" and array.max() <= np.iinfo(np.int64).max
    with np.errstate(over="ignore"):
        return array.dtype.kind in "iuf" and bool(np.isfinite(array.astype(np.float32)).all())


def _as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
