"""Statistics of logged instances, by the code that describes the examples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from components.endpoint.watch.options import PIXELS
from components.errors import StepError
from components.prepare_examples.statistics.images import ImageStatistics
from components.prepare_examples.statistics.states import new_statistic
from trainer import Json
from trainer.request_values import is_example
from trainer.workloads import Table, Workload
from trainer.workloads.declarations.features import Image, Timestamp
from trainer.workloads.declarations.storage import FLOAT, TEXT, WORDS
from trainer.workloads.image_folder import ImageFolder

PREDICTION = "prediction"
_ARROW = {FLOAT: pa.float64(), TEXT: pa.string(), WORDS: pa.string()}
_GREY = 2  # dimensions of an image without channels


def check_watchable(workload: Workload) -> None:
    """Raise StepError for a workload whose requests have no statistics."""
    if not isinstance(workload, Table | ImageFolder):
        raise StepError(
            f"{workload.name} has neither a table nor images, so its requests cannot be compared"
            " with its examples"
        )


def describe(
    instances: Sequence[Any], predictions: Sequence[Any], workload: Workload
) -> tuple[Json, int]:
    """Return the statistics of instances, as a split has them, and the number of unreadable ones.

    They have the features that a request may have, and the feature `prediction`. Moments in time
    are left out, since each is later than those before, and so are a table's pictures.
    """
    parsed, rows, kept = [], [], []
    for instance, prediction in zip(instances, predictions, strict=True):
        try:
            features = workload.parse_instance(instance)
        except (ValueError, OverflowError):
            continue
        parsed.append(features)
        rows.append(instance)
        kept.append(prediction)
    made = _of_images if isinstance(workload, ImageFolder) else _of_rows
    split = made(parsed, rows, workload) if parsed else {"features": {}}
    split["features"] |= _of_predictions(kept, workload)
    return {"num_examples": len(parsed), **split}, len(instances) - len(parsed)


def _of_rows(parsed: Sequence[Json], rows: Sequence[Json], workload: Any) -> Json:
    stacked = {name: np.stack([features[name] for features in parsed]) for name in parsed[0]}
    plain = [
        workload.format_instance({name: values[at] for name, values in stacked.items()})
        for at in range(len(parsed))
    ]
    used = {feature.name for feature in workload.used}
    # A number as it was sent: format_instance rounds it to float32, as an Example has it anyway.
    sent = [
        one if is_example(row, used) else workload.values_by_feature(row)
        for row, one in zip(rows, plain, strict=True)
    ]
    found: Json = {}
    for feature in workload.features:
        if feature.name not in used or isinstance(feature, Timestamp | Image):
            continue
        kind, is_list = feature.storage, feature.is_list
        values = sent if kind == FLOAT else plain
        arrow = _ARROW.get(kind, pa.int64())
        array = pa.array(
            [one.get(feature.name) for one in values], pa.list_(arrow) if is_list else arrow
        )
        statistic = new_statistic(kind, is_list=is_list, num_listed=feature.num_listed)
        statistic.add(array)
        found[feature.name] = statistic.summary()
    return {"features": found}


def _of_images(parsed: Sequence[Json], rows: Sequence[Any], workload: Any) -> Json:
    del rows
    images = np.stack([features["image"] for features in parsed])
    num_channels = 1 if len(workload.shape) == _GREY else workload.shape[2]
    pixels = images.reshape(len(images), -1, num_channels).transpose(0, 2, 1)
    statistics = ImageStatistics(num_channels)
    statistics.add((np.ascontiguousarray(pixels), np.zeros(len(images), np.int64)))
    return {"features": {}, PIXELS: statistics.summary()[PIXELS]}


def _of_predictions(predictions: Sequence[Any], workload: Workload) -> Json:
    """Return the statistics of the predicted classes or numbers; {} if a hook has changed them."""
    if workload.label.is_list:
        return {}
    is_number = workload.label.is_number
    name, kind = ("value", FLOAT) if is_number else ("label", TEXT)
    values = [
        prediction.get(name) if isinstance(prediction, dict) else None for prediction in predictions
    ]
    allowed = (int, float) if is_number else str
    if not values or not all(isinstance(value, allowed) for value in values):
        return {}
    statistic = new_statistic(kind)
    statistic.add(pa.array(values, _ARROW[kind]))
    return {PREDICTION: statistic.summary()}
