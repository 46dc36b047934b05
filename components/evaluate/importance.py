"""Permutation importance: the loss in a metric when the values of a column are shuffled.

Breiman, "Random forests", 2001. What one column of the data became, such as the parts of a date, is
shuffled together.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from components.evaluate.gate.gain import SEED, measure_slice_gain
from components.evaluate.held_out import predict_table
from trainer import Json
from trainer.metrics.evaluate import find_labelled
from trainer.metrics.resampling import statistic
from trainer.workloads.base import Workload
from trainer.workloads.declarations.features import Image, TimePart

if TYPE_CHECKING:
    from trainer.serving.export import Predictor

MAX_ROWS, MIN_ROWS = 10_000, 500
# Rows to predict in all: some seconds.
MAX_PREDICTIONS = 400_000


def measure_importance(
    examples_dir: str, predictor: "Predictor", *, metric: str, confidence: float
) -> list[Json]:
    """Return the loss in a metric without each column of the data, the largest first.

    `low` and `high` are the ends of its interval. It is [] for a single input, and where the
    metric is not defined.
    """
    from trainer.examples.manifest import read_manifest
    from trainer.examples.tables import gather_rows, read_table

    workload = predictor.workload
    columns = _columns(workload)
    if len(columns) < 2:  # noqa: PLR2004
        return []
    manifest = read_manifest(examples_dir, workload=workload.name)
    split = manifest.splits["test"]  # whose checksums `read_held_out` has verified
    num_rows = max(MIN_ROWS, min(MAX_ROWS, MAX_PREDICTIONS // len(columns)))
    every = -(-split.num_examples // num_rows)
    table = read_table(split, workload, compression=manifest.compression, raw=True, every=every)
    rows = np.flatnonzero(find_labelled(table[1].numpy(), workload.label))
    features, labels = gather_rows(table, rows)
    shuffled = np.random.default_rng(SEED).permutation(len(rows))

    def measured(changed: Mapping[str, Any]) -> Any:
        table = {**features, **changed}
        predictions = predict_table(predictor.predict_values, table, labels.numpy(), workload)
        return statistic(metric, predictions, labels.numpy(), workload.label)

    whole, found = measured({}), list[Json]()
    for column, names in columns.items():
        gain = measure_slice_gain(
            metric,
            whole,
            measured({name: gather_rows(features[name], shuffled) for name in names}),
            num_examples=len(rows),
            confidence=confidence,
        )
        if gain.is_defined:
            ends = {"low": gain.low, "high": gain.high}
            found.append({"feature": column, "metric": metric, "loss": gain.difference, **ends})
    return sorted(found, key=lambda row: -row["loss"])


def _columns(workload: Workload) -> dict[str, list[str]]:
    """Return the inputs by the column of the data that they come from, without pictures."""
    columns: dict[str, list[str]] = {}
    declared = {feature.name: feature for feature in getattr(workload, "used", ())}
    for name in workload.input_specs():
        feature = declared.get(name)
        if not isinstance(feature, Image):
            column = feature.of if isinstance(feature, TimePart) else name
            columns.setdefault(column, []).append(name)
    return columns
