"""Images of one size, in class folders or files of many images."""

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np

from trainer import Json
from trainer.request_values import check_fields, is_example
from trainer.runtime.lazy import keras, tf
from trainer.workloads.base import Build, Features, Recipe, Workload, check_num_noise
from trainer.workloads.declarations.labels import Classes, Label
from trainer.workloads.encoding.decoding import Decoding
from trainer.workloads.encoding.image_files import decode_image
from trainer.workloads.encoding.images import (
    NUM_SHIFTS,
    as_floats,
    as_png,
    decode_exactly,
    parse_image,
    pixels_of,
    shift_a_little,
)
from trainer.workloads.models.residual import residual

_RECIPE = Recipe(
    learning_rate=2e-3, weight_decay=0.1, average_decay=0.99, label_smoothing=0.05, min_steps=300
)
_OWN_RECIPE = Recipe(learning_rate=1e-3, min_steps=300)

# Of an image as JSON rows, whose ten golden instances fit into a request: 35,000 times 4 bytes.
_MOST_NUMBERS = 35_000
_BASE64_PADDING = 2

Augment = Callable[[Any, Any], Any]


@dataclass(frozen=True, repr=False)
class ImageFolder(Workload, Decoding):
    """Images, in a folder for each class.

    Models get one Keras input, float32 [height, width, channels] from 0 to 1, or from 0 to 255 with
    `raw_inputs`. Without `model` it trains a small residual net.

    Attributes:
        label: the classes; default: the names of the folders.
        group_by: a regular expression, such as `patient_[0-9]+`; images in whose path it matches
            the same text are in one split.
        augment_with: a function from a training batch, uint8 [batch, height, width] and channels
            if there are several, and random numbers from 0 to 1, [batch, num_noise], to the images
            to train on. None: no augmentation.
        num_noise: how many random numbers your `augment_with` takes for each image.
        learn: a function from some thousand images of the train split to facts, as JSON, that the
            model's argument `facts` gets.
        raw_inputs: give `model` pixels from 0 to 255.
    """

    size: tuple[int, int] = (64, 64)
    _: KW_ONLY
    label: Label = field(default_factory=Classes)
    group_by: str = ""
    augment_with: Augment | None = shift_a_little
    num_noise: int = 0
    learn: Callable[[np.ndarray], Mapping[str, Any]] | None = None
    raw_inputs: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_decoding()
        object.__setattr__(self, "size", tuple(self.size))
        if not self.label.has_classes:
            raise ValueError("label: images in class folders have the label Classes()")
        try:
            re.compile(self.group_by)
        except (re.error, TypeError) as error:
            raise ValueError(
                f"group_by: {self.group_by!r} is no regular expression: {error}"
            ) from None
        if self.raw_inputs and self.model is None:
            raise ValueError("raw_inputs: the default model needs pixels from 0 to 1; give a model")
        num_noise = NUM_SHIFTS if self.augment_with is shift_a_little else self.num_noise
        object.__setattr__(self, "num_noise", check_num_noise(num_noise, self.augment_with))

    @property
    def learns(self) -> bool:
        return super().learns or self.learn is not None or not self.label.names_of_classes()

    def class_values(self) -> tuple[Any, ...]:
        return super().class_values() or self.labels

    def stored_classes(self) -> Sequence[Any]:
        """Return the value of each class, as in examples: its number."""
        return range(len(self.labels))

    def default_models(self) -> Mapping[str, Build]:
        return {"residual": residual}

    def default_recipe(self) -> Recipe:
        return _OWN_RECIPE if self.model else _RECIPE

    def model_inputs(self) -> Any:
        return keras.Input((*self.size, self.channels), name="image")

    def augment(self, features: Features, noise: Any) -> Features:
        if self.augment_with is None:
            return features
        return {**features, "image": self.augment_with(features["image"], noise)}

    def preprocess(self, features: Features) -> Any:
        """Return float pixels, shape [batch, height, width, channels]."""
        return as_floats(features["image"], channels=self.channels, is_raw=self.raw_inputs)

    def adapt(self, features: Features) -> Self:
        return self.with_learnt(**(self.learn(features["image"]) if self.learn else {}))

    def with_statistics(self, statistics: Json) -> Self:
        workload = super().with_statistics(statistics)
        names = statistics.get(self.label.column, {}).get("names")
        if self.label.names_of_classes() or not names:
            return workload
        return workload.with_learnt(classes=list(names))

    def adapt_to_statistics(self, statistics: Json) -> Self | None:
        return None if self.learn is not None or not self.labels else self

    def decode_file(self, data: bytes) -> np.ndarray:
        """Return the pixels of an image file, resized unless the source's images have one size."""
        if self.source is not None and self.source.format is not None:
            return decode_exactly(data, self.shape)
        return decode_image(data, self).reshape(self.shape)

    @property
    def feature_names(self) -> list[str]:
        return []

    def input_specs(self) -> dict[str, Any]:
        """Return the exported model's one input: raw uint8 images."""
        return {"image": tf.TensorSpec([None, *self.shape], tf.uint8, name="image")}

    def parse(self, serialized: Any) -> tuple[Features, Any]:
        """Return {"image": uint8 [batch, *shape]} and labels [batch].

        Raises:
            tf.errors.InvalidArgumentError: a record is not an Example of an image of this size.
        """
        spec = {
            "image": tf.io.FixedLenFeature([], tf.string),
            self.label.column: tf.io.FixedLenFeature([], tf.int64, -1),
        }
        examples = tf.io.parse_example(serialized, spec)
        return {"image": pixels_of(examples["image"], self.shape)}, examples[self.label.column]

    def parse_instance(self, instance: Any) -> Features:
        """Return the features of {"image": …} or an image: nested rows, a flat list, or {"b64": …}.

        The base64 text encodes an image file, or else raw pixels; the text of an instance
        without the field `image` may also be a serialized tf.train.Example.
        """
        if is_example(instance, ()) and self._may_be_example(instance["b64"]):
            return {"image": self.parse_examples([instance])["image"][0]}
        if not isinstance(instance, dict) or set(instance) == {"b64"}:
            return {"image": parse_image(instance, self.shape, self.decode_file)}
        check_fields(instance, ["image"])
        if "image" not in instance:
            raise ValueError("the field 'image' is missing")
        return {"image": parse_image(instance["image"], self.shape, self.decode_file)}

    def _may_be_example(self, text: Any) -> bool:
        """Return whether a base64 text encodes an Example, unlike pixels and image files.

        An Example has more bytes than its pixels, and its first one is 0x0a, which no file has.
        """
        if not isinstance(text, str) or text[:1] != "C":
            return False
        return len(text) * 3 // 4 > math.prod(self.shape) + _BASE64_PADDING

    def format_instance(self, features: Features) -> Any:
        """Return {"image": nested rows}; of a large image a PNG in base64, for short requests."""
        image = features["image"]
        return {"image": image.tolist() if image.size <= _MOST_NUMBERS else as_png(image)}

    def wire_forms(self, features: Features) -> dict[str, Any]:
        """Return the image as an object, nested rows, a flat list, and base64: pixels and PNG."""
        image = features["image"]
        return {
            **super().wire_forms(features),
            "rows": image.tolist(),
            "flat": image.ravel().tolist(),
            "base64": {"b64": base64.b64encode(image.tobytes()).decode()},
            "png": {"image": as_png(image)},
        }
