"""Check of a verdict that is as good as perfect, because a column tells the label."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.evaluate.gate.telling import Floats, words_of
from components.evaluate.importance import MAX_ROWS, columns_of, read_some
from components.evaluate.thresholds import Check, format_metric
from components.shared.text.value_text import first_of
from trainer.metrics.resampling import comparable
from trainer.workloads.base import Workload
from trainer.workloads.declarations.features import Image
from trainer.workloads.declarations.labels import Multilabel, Regression
from trainer.workloads.encoding.storage import missing_value

PERFECT = 0.99  # from which on a column is looked for, and what it tells alone
NUM_SHOWN = 3


def check_leaks(examples_dir: str, workload: Workload, metrics: Mapping[str, float]) -> list[Check]:
    """Return a check, met but not sure, of columns that alone explain a nearly perfect model.

    They are judged by rows of the train split, which are more than those of the test split.
    """
    label, used = workload.label, getattr(workload, "used", ())
    has_classes = not isinstance(label, Regression)
    metric = comparable(label, len(workload.labels))[0] if has_classes else "r2"
    is_perfect = metrics.get(metric, 0.0) >= PERFECT and not isinstance(label, Multilabel)
    if not used or not is_perfect or any(isinstance(feature, Image) for feature in used):
        return []
    features, labels = read_some(examples_dir, workload, split="train", num_rows=MAX_ROWS)
    truth = labels.numpy().astype(float)
    missing = {feature.name: missing_value(feature) or b"" for feature in used}
    told = {}
    for column, names in columns_of(workload).items():
        for name in names:
            values = features[name].numpy()
            if values.ndim == 1 and (
                words := _words_of(values, missing.get(name), truth, has_classes=has_classes)
            ):
                told[column] = f"{column} tells {label.column} {words}"
    if not told:
        return []
    text = (
        f"{metric} {format_metric(metrics[metric])}, since {first_of([*told.values()], NUM_SHOWN)};"
        " remove what is known only afterwards"
    )
    return [Check(name="leaks", is_ok=True, is_sure=False, text=text)]


def _words_of(values: NDArray[Any], missing: Any, labels: Floats, *, has_classes: bool) -> str:
    """Return how the values of a raw feature tell the label, in words, or ""."""
    absent = np.isnan(values) if values.dtype.kind == "f" else values == missing
    is_number = values.dtype != object
    numbers = np.where(absent, np.nan, values) if is_number else np.full(len(values), np.nan)
    codes = np.where(absent, np.nan, np.unique(values, return_inverse=True)[1])
    words = words_of(codes, numbers, labels, has_classes=has_classes, least=PERFECT)
    if words or has_classes or not np.isfinite(numbers).all() or not np.ptp(numbers):
        return words
    return "alone" if np.square(np.corrcoef(numbers, labels)[0, 1]) >= PERFECT else ""
