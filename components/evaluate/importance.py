"""Permutation importance: the loss in a metric when the values of a column are shuffled.

Breiman, "Random forests", 2001. What one column of the data became, such as the parts of a date, is
shuffled together.
"""

import heapq
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from components.evaluate.gate.gain import SEED, Gain, measure_gain
from components.evaluate.held_out import predict_table
from trainer import Json
from trainer.workloads.base import Workload
from trainer.workloads.declarations.features import Image

if TYPE_CHECKING:
    from trainer.serving.export import Predictor

logger = logging.getLogger(__name__)

MAX_ROWS, MIN_ROWS = 10_000, 500
# Rows to predict in all: some seconds.
MAX_PREDICTIONS = 400_000
# Values to predict of in all; of more columns the most important ones are searched for. A column
# of few rows costs as much as one of MIN_COUNTED rows.
MAX_VALUES, MIN_MEASURED, MIN_COUNTED = 150_000_000, 100, 1_000


def measure_importance(
    examples_dir: str, predictor: "Predictor", *, metric: str, confidence: float
) -> list[Json]:
    """Return the loss in a metric without each column of the data, the largest first.

    `low` and `high` are the ends of its interval. Of many columns only some of the most important
    are returned. It is [] for a single input, and where the metric is not defined.
    """
    from trainer.examples.tables import gather_rows

    workload = predictor.workload
    columns = columns_of(workload)
    if len(columns) < 2:  # noqa: PLR2004
        return []
    num_rows = max(MIN_ROWS, min(MAX_ROWS, MAX_PREDICTIONS // len(columns)))
    features, labels = read_some(examples_dir, workload, split="test", num_rows=num_rows)
    shuffled = np.random.default_rng(SEED).permutation(len(labels))

    def measured(changed: Mapping[str, Any]) -> Any:
        table = {**features, **changed}
        predictions = predict_table(predictor.predict_values, table, labels.numpy(), workload)
        return workload.label.statistic(metric, predictions, labels.numpy())

    whole = measured({})

    def gain_without(block: Sequence[str]) -> Gain:
        names = [name for column in block for name in columns[column]]
        return measure_gain(
            metric,
            whole,
            measured({name: gather_rows(features[name], shuffled) for name in names}),
            num_examples=len(labels),
            confidence=confidence,
            is_slice=True,
        )

    num_values = max(len(labels), MIN_COUNTED) * len(columns)
    most = max(MIN_MEASURED, MAX_VALUES // num_values)
    gains = largest_gains(list(columns), gain_without, most=most)
    losses = [
        {"feature": column, "metric": metric, "loss": g.difference, "low": g.low, "high": g.high}
        for column, g in gains.items()
        if g.is_defined
    ]
    return sorted(losses, key=lambda row: -row["loss"])


def read_some(examples_dir: str, workload: Workload, *, split: str, num_rows: int) -> Any:
    """Return the raw features and the labels of about so many rows of all parts of a split.

    Its checksums are verified elsewhere.
    """
    from trainer.examples.manifest import read_manifest
    from trainer.examples.tables import gather_rows, read_table

    manifest = read_manifest(examples_dir, workload=workload.name)
    part = manifest.splits[split]
    every = -(-part.num_examples // num_rows)
    table = read_table(part, workload, compression=manifest.compression, raw=True, every=every)
    return gather_rows(table, np.flatnonzero(workload.label.find_labelled(table[1].numpy())))


def largest_gains(
    columns: Sequence[str], gain_without: Callable[[Sequence[str]], Gain], *, most: int
) -> dict[str, Gain]:
    """Return the gains from single columns, all or, of many columns, some of the largest.

    If there are more than `most` columns, as many blocks of them as half of that are measured, and
    the block with the largest gain is halved, again and again, until `most` gains are measured.
    """
    num_blocks = len(columns) if len(columns) <= most else most // 2
    unmeasured = [list(block) for block in np.array_split(np.array(columns, object), num_blocks)]
    singles: dict[str, Gain] = {}
    queue: list[tuple[float, int, list[str]]] = []
    num_measured = 0
    while unmeasured:
        block = unmeasured.pop(0)
        gain = gain_without(block)
        num_measured += 1
        if len(block) == 1:
            singles[block[0]] = gain
        elif gain.is_defined:
            heapq.heappush(queue, (-gain.difference, num_measured, block))
        if not unmeasured and queue and num_measured + 2 <= most:
            _, _, block = heapq.heappop(queue)
            unmeasured = [block[: len(block) // 2], block[len(block) // 2 :]]
    if queue:
        logger.info(
            "importance: %d of %d columns, those in the blocks that matter most",
            len(singles),
            len(columns),
        )
    return singles


def columns_of(workload: Workload) -> dict[str, list[str]]:
    """Return the inputs by the column of the data that they come from, without pictures."""
    columns: dict[str, list[str]] = {}
    declared = {feature.name: feature for feature in getattr(workload, "used", ())}
    for name in workload.input_specs():
        feature = declared.get(name)
        if not isinstance(feature, Image):
            columns.setdefault(feature.origin if feature else name, []).append(name)
    return columns
