"""Size, pixels, label and weights that class folders of images take over from a script."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from pipelines.projects.literals import SourceText
from pipelines.projects.scripts.origins import Array
from pipelines.projects.scripts.rows import array_of
from pipelines.projects.scripts.script_text import ScriptFault
from pipelines.projects.scripts.table_script import codes_of
from pipelines.projects.scripts.written import DEFAULT_BATCH, ScriptParts
from trainer import Json

WHITE = 255.0
LIGHT = 1.5  # the largest pixel of images from 0 to 1, or -1 to 1
NUM_CHECKED = 8
CHANNELS = (1, 3, 4)
CLASS_LISTS = ("class_names", "classes")  # arguments of Keras' loaders of images


def write_images(written: ScriptParts, told: Json, result: Path) -> Json:
    """Return what a workload of images takes over from a script; weights are a file in `result`.

    Raises:
        ScriptFault: the rows are no images, not all of the folder, or have other classes.
    """
    fit, names = written.recording.fit_arguments, sorted(told["classes"])
    if Path(written.recording.told["images"] or "-").resolve() != Path(told["images"]):
        raise ScriptFault(f"trainyard.fit needs images={told['images']!r}, the folder of --images")
    if fit.get("sample_weight") is not None:
        raise ScriptFault("sample_weight of images has no place in their folders")
    if listed := next((w for w in CLASS_LISTS if f"{w}=" in written.recording.script.text), ""):
        raise ScriptFault(
            f"{listed}=… may number classes in another order than their names: omit it"
        )
    batches = list(_batches(fit.get("x"), fit.get("y")))
    images, labels = batches[0]
    codes = np.concatenate([codes_of(y) for _, y in batches])
    number, total, judged = len(codes), sum(told["classes"].values()), fit.get("validation_data")
    if number != total and judged is not None:
        pairs = judged if isinstance(judged, tuple) else (judged,)
        number += sum(len(labels) for _, labels in _batches(*pairs))
    if number != total:
        raise ScriptFault(
            f"x has {number:,} images with those of validation_data, and the folder {total:,}: give"
            " fit all of a folder, and make one with these images if they are a part"
        )
    size = written.output_size(images, "label")
    if (2 if size == 1 else size) != len(names) or not np.isin(codes, range(len(names))).all():
        raise ScriptFault(
            f"the model has {size} outputs, and there are {len(names)} folders of classes: give its"
            " last layer as many units, and y numbers of classes from 0, or one-hot"
        )
    written.result["label"] = {"kind": "binary" if size == 1 else "classes", "values": names}
    written.weigh_classes(names, range(len(names)))
    if size == 1:
        written.count_from_one_half("label")
    written.settings((images[:2], labels[:2]), len(images) if len(batches) > 1 else DEFAULT_BATCH)
    if images.ndim != 4 or images.shape[3] not in CHANNELS:  # noqa: PLR2004
        raise ScriptFault(
            f"x is {images.shape[1:]} for each image: give [height, width, channels], and have the"
            " model reshape it"
        )
    written.result |= {"size": images.shape[1:3], "channels": images.shape[3]}
    scale, offset = _scale(images)
    inputs = "inputs"
    if scale != 1:
        inputs = f"keras.layers.Rescaling(1 / {1 / scale:g}, offset={offset:g})(inputs)"
        written.notes.append(f"pixels from {offset:g} to 1 are made in the model, of 0 to 255")
    pixels = (images[:NUM_CHECKED].astype(np.float32) - offset) / scale
    return written.write(
        result,
        inputs=SourceText(inputs),
        given=images[:NUM_CHECKED],
        own=keras.ops.convert_to_tensor(pixels),
    )


def _batches(x: Any, y: Any = None) -> Iterator[tuple[Array, Array]]:
    """Yield images with their labels, of a data set in its batches."""
    data = [(x, y)] if hasattr(x, "shape") else x
    if isinstance(x, keras.utils.PyDataset):
        data = (x[at] for at in range(x.num_batches))
    for batch in data:
        if not isinstance(batch, tuple | list):
            raise ScriptFault("fit gets no labels; images in class folders have their class")
        yield array_of(batch[0]), array_of(batch[1])


def _scale(values: Array) -> tuple[float, float]:
    """Return what pixels from 0 to 255 were multiplied with, and what was added."""
    low, high = float(values.min()), float(values.max())
    if low >= 0:
        return (1.0 if high > LIGHT else 1 / WHITE), 0.0
    if low >= -1 and high <= 1:
        return 2 / WHITE, -1.0
    raise ScriptFault(
        f"pixels from {low:.3g} to {high:.3g} are scaled outside the model: fit those from 0 to 255"
        " or 0 to 1, and scale them in the model by keras.layers.Normalization"
    )
