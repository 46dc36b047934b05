"""Reasons why a metric is not defined on some examples."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.evaluate.held_out import HeldOut
from trainer.metrics.class_metrics import CHOICE
from trainer.workloads.declarations.labels import Multilabel

# Of two classes, those that must be among the examples.
NEEDED_CLASSES = {"auc": (0, 1), "pr_auc": (1,)}
TEST_SPLIT = "the test split"


def find_not_finite(predictions: NDArray[Any]) -> NDArray[np.intp]:
    """Return the examples whose predictions, as HeldOut has them, have a NaN or an infinity."""
    if predictions.dtype == CHOICE:
        predictions = predictions["likelihood"]
    return np.flatnonzero(~np.atleast_2d(np.isfinite(predictions).T).all(axis=0))


def why_undefined(
    metric: str, held_out: HeldOut, rows: Any = slice(None), *, examples: str = ""
) -> str:
    """Return why a metric of the trained model is not a finite number, in words.

    `rows` are the indices of the examples that the metric is of, by default all, and `examples`
    these in words.
    """
    examples = examples or ("the whole dataset" if held_out.basis else TEST_SPLIT)
    predictions, labels = held_out.predictions[rows], held_out.labels[rows]
    if num_bad := len(find_not_finite(predictions)):
        return f"{num_bad:,} of {len(predictions):,} predictions are not finite numbers"
    if metric in NEEDED_CLASSES and isinstance(held_out.label, Multilabel):
        return f"no label is both present and absent in {examples}"
    present = set(labels.tolist())
    absent = [
        held_out.names[number] for number in NEEDED_CLASSES.get(metric, ()) if number not in present
    ]
    if absent:
        return f"{examples} has no {absent[0]!r}"
    if metric == "r2" and len(present) == 1:
        return f"{held_out.label.column} is {labels[0]:g} in all of {examples}"
    return f"its value on {examples} is not a finite number"
