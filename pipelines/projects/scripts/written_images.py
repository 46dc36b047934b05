"""Size, pixels, label and weights that class folders of images take over from a script."""

import math
from collections.abc import Sequence

import keras
import numpy as np

from pipelines.projects.scripts.compare_rows import Array
from pipelines.projects.scripts.recorder import Recording
from pipelines.projects.scripts.rows import RecordedRows, inputs_of
from pipelines.projects.scripts.script_text import ScriptFault, ScriptText
from pipelines.projects.scripts.written import Parts, WrittenModel

WHITE = 255.0
LIGHT = 1.5  # the largest pixel of images from 0 to 1, or -1 to 1
NUM_CHECKED = 8
CHANNELS = (1, 3, 4)
# Arguments that list the classes in the order of their numbers.
CLASS_LISTS = {"image_dataset_from_directory": "class_names", "flow_from_directory": "classes"}
# What ImageDataGenerator changes at random.
RANDOM = (
    *("rotation_range", "width_shift_range", "height_shift_range", "shear_range", "zoom_range"),
    *("brightness_range", "horizontal_flip", "vertical_flip"),
)


class WrittenImages(WrittenModel):
    """A script that trains on images."""

    most_rows = 256

    def __init__(self, script: ScriptText, recording: Recording, classes: Sequence[str]):
        super().__init__(script, recording)
        self._classes = classes

    def _in_order(self, classes: Sequence[str]) -> Sequence[str]:
        """Return the classes by their numbers in the script, which may list them."""
        for function, argument in CLASS_LISTS.items():
            listed = self.script.argument_of(function, argument, self.recording.variables)
            if listed and sorted(listed) == sorted(classes):
                return list(listed)
        return classes

    def parts(self, rows: RecordedRows) -> Parts:
        """Return the layers before the model, and write down size, label and weights.

        Raises:
            ScriptFault: the rows are no images, have other classes than the folders, or an order
                of them that is unknown.
        """
        [(images, _), *more] = inputs_of(self.model, rows)
        if more:
            raise ScriptFault("the model has several inputs, and images are one")
        shape = _shape(images.values.shape[1:])
        self._classes = self._in_order(self._classes)
        self._label(rows)
        if weights := self.recording.fit.get("class_weight"):
            self.class_weights(self._classes, weights)
        if rows.weights is not None:
            raise ScriptFault("sample_weight of images has no place in their folders")
        generator = getattr(self.recording.fit.get("x"), "image_data_generator", None)
        if changed := [name for name in RANDOM if getattr(generator, name, None)]:
            self.notes.append(
                f"{', '.join(changed)} of the ImageDataGenerator: not taken over; put layers such"
                " as keras.layers.RandomFlip into the model"
            )
        self.result |= {"size": shape[:2], "channels": shape[2]}
        values = images.values[:NUM_CHECKED].astype(np.float32).reshape(-1, *shape)
        scale, offset = _scale(images.values)
        lines = []
        if scale != 1:
            moved = f", offset={offset:g}" if offset else ""
            lines.append(f"x = keras.layers.Rescaling(1 / {1 / scale:g}{moved})(inputs)")
            line = self.script.line_of_argument("x", self.recording.line)
            self.notes.append(
                f"pixels from {offset:g} to 1 (the inputs of line {line}) are made in the model, of"
                " those from 0 to 255"
            )
        if shape != images.values.shape[1:]:
            target = tuple(images.values.shape[1:])
            before = "x" if lines else "inputs"
            lines.append(f"x = keras.layers.Reshape({target})({before})")
        return Parts(
            lines=lines,
            expressions=["x" if lines else "inputs"],
            inputs=keras.Input(shape, name="image"),
            batch=keras.ops.convert_to_tensor((values - offset) / scale),
            known=slice(0, NUM_CHECKED),
        )

    def _label(self, rows: RecordedRows) -> None:
        num_outputs, num_classes = self.num_outputs(rows), len(self._classes)
        codes = rows.class_numbers
        if codes.dtype.kind in "OUS" or (codes != np.round(codes)).any() or codes.min() < 0:
            raise ScriptFault("the label of images must be the number of their class, or one-hot")
        is_binary = num_outputs == 1
        if num_classes != (2 if is_binary else num_outputs) or codes.max() >= num_classes:
            raise ScriptFault(
                f"the model has {num_outputs} outputs, and there are {num_classes} folders of"
                " classes: give its last layer as many units, or other folders"
            )
        self.result["label"] = {
            "kind": "binary" if is_binary else "classes",
            "values": list(self._classes),
        }


def _shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    match shape:
        case (height, width, channels) if channels in CHANNELS:
            return (height, width, channels)
        case (height, width):
            return (height, width, 1)
        case (size,):
            for channels in CHANNELS:
                side = math.isqrt(size // channels)
                if side * side * channels == size:
                    return (side, side, channels)
    raise ScriptFault(f"fit gets {shape} for each example, which is no image")


def _scale(values: Array) -> tuple[float, float]:
    """Return what pixels from 0 to 255 were multiplied with, and what was added."""
    low, high = float(values.min()), float(values.max())
    if high > LIGHT and low >= 0:
        return 1.0, 0.0
    if low >= 0:
        return 1 / WHITE, 0.0
    if low >= -1 and high <= 1:
        return 2 / WHITE, -1.0
    raise ScriptFault(
        f"pixels from {low:.3g} to {high:.3g} are scaled outside the model: fit those from 0 to 255"
        " or 0 to 1, and scale them in the model by keras.layers.Normalization"
    )
