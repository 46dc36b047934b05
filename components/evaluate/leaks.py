"""Check of a verdict that is as good as perfect, because a column tells the label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.evaluate.gate.telling import Floats, words_of
from components.evaluate.importance import MAX_ROWS, columns_of, read_some
from components.evaluate.thresholds import Check, format_metric
from components.shared.text.value_text import first_of
from trainer.workloads.base import Workload
from trainer.workloads.declarations.features import Image

PERFECT = 0.99  # from which on a column is looked for, and what it tells alone
NUM_SHOWN = 3


def check_leaks(examples_dir: str, workload: Workload, metrics: Mapping[str, float]) -> list[Check]:
    """Return a check, met but not sure, of columns that alone explain a nearly perfect model.

    They are judged by rows of the train split, which are more than those of the test split.
    """
    label = workload.label
    has_classes = not label.is_number
    metric = label.default_metric(len(workload.labels)) if has_classes else "r2"
    is_perfect = metrics.get(metric, 0.0) >= PERFECT  # False of NaN, too
    if not is_perfect:
        return []
    columns, labels = train_columns(examples_dir, workload)
    told = {
        column.name: f"{column.name} tells {label.column} {words}"
        for column in columns
        if (words := _words_of(column, labels, has_classes=has_classes))
    }
    if not told:
        return []
    text = (
        f"{metric} {format_metric(metrics[metric])}, since {first_of([*told.values()], NUM_SHOWN)};"
        " remove what is known only afterwards"
    )
    return [Check(name="leaks", is_ok=True, is_sure=False, text=text)]


@dataclass(frozen=True)
class TrainColumn:
    """The codes and numbers of a column's rows, see `words_of`; two texts count as numbers."""

    name: str
    codes: Floats
    numbers: Floats


def train_columns(examples_dir: str, workload: Workload) -> tuple[list[TrainColumn], Floats]:
    """Return what columns became, and the labels, of some rows of a table's train split.

    There are none of a table with pictures, or with several labels of a row.
    """
    used = getattr(workload, "used", ())
    is_plain = not any(isinstance(feature, Image) for feature in used)
    if not used or not is_plain or workload.label.is_list:
        return [], np.empty(0)
    features, labels = read_some(examples_dir, workload, split="train", num_rows=MAX_ROWS)
    missing = {feature.name: feature.missing_value for feature in used}
    columns = [
        _train_column(column, values, missing.get(name))
        for column, names in columns_of(workload).items()
        for name in names
        if (values := features[name].numpy()).ndim == 1
    ]
    return columns, labels.numpy().astype(float)


def _train_column(name: str, values: NDArray[Any], missing: Any) -> TrainColumn:
    absent = np.isnan(values) if values.dtype.kind == "f" else values == missing
    different, ranks = np.unique(values, return_inverse=True)
    codes = np.where(absent, np.nan, ranks)
    is_number, is_flag = values.dtype != object, len(different) == 2  # noqa: PLR2004
    numbers = np.where(absent, np.nan, values if is_number else ranks)
    is_shown = is_number or is_flag
    return TrainColumn(name, codes, numbers if is_shown else np.full(len(values), np.nan))


def _words_of(column: TrainColumn, labels: Floats, *, has_classes: bool) -> str:
    """Return how a column tells the label, in words, or ""."""
    numbers = column.numbers
    words = words_of(column.codes, numbers, labels, has_classes=has_classes, least=PERFECT)
    if words or has_classes or not np.isfinite(numbers).all() or not np.ptp(numbers):
        return words
    return "alone" if np.square(np.corrcoef(numbers, labels)[0, 1]) >= PERFECT else ""
