"""Remarks on classes: those that are never predicted, and those that a split does not have."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from components.evaluate.gate.undefined import find_not_finite
from components.evaluate.held_out import HeldOut
from components.evaluate.thresholds import Check
from components.model_version.companions import STATISTICS_FILE
from components.shared.text.json_object import read_object
from trainer.metrics.class_metrics import predicted_classes
from trainer.workloads.declarations.labels import Binary, Classes

NUM_SHOWN = 5


def check_classes(held_out: HeldOut, examples_dir: str) -> list[Check]:
    """Return a check, met but not sure, for classes about which this evaluation says nothing good.

    They are the classes that the model never predicts though examples have them, and those without
    an example in the test or the eval split.
    """
    if not isinstance(held_out.label, Binary | Classes) or len(
        find_not_finite(held_out.predictions)
    ):
        return []
    size = len(held_out.names)
    actual = np.bincount(held_out.labels, minlength=size)
    predicted = predicted_classes(held_out.predictions, held_out.label)
    counts = np.bincount(predicted, minlength=size)
    never = [at for at in range(size) if actual[at] and not counts[at]]
    absent = [name for name, count in zip(held_out.names, actual, strict=True) if not count]
    texts = []
    if never:
        named = [f"{held_out.names[at]!r} ({actual[at]:,} examples)" for at in never]
        advice = (
            '; Binary(…, threshold="f1") or cost={…} chooses a better threshold'
            if isinstance(held_out.label, Binary)
            else "; class_weights or more examples of it may help"
        )
        texts.append(f"the model never predicts {_listed(named)}{advice}")
    if absent:
        texts.append(_without("test", absent))
    if unseen := _absent_from_eval(held_out, examples_dir):
        texts.append(_without("eval", unseen))
    return [
        Check(name="classes", value=None, limit=None, is_ok=True, is_sure=False, text=text)
        for text in texts
    ]


def _absent_from_eval(held_out: HeldOut, examples_dir: str) -> list[str]:
    """Return the classes of train without an example in eval, if the statistics list them all."""
    path = Path(examples_dir, STATISTICS_FILE)
    splits = read_object(path).get("splits", {}) if path.is_file() else {}
    names: dict[str, set[str]] = {}
    for split in ("train", "eval"):
        features = splits.get(split, {}).get("features", {})
        values = features.get(held_out.label.column, {})
        top = [value for value, _ in values.get("top_values", ())]
        if not top or len(top) < values.get("num_unique", 0):
            return []
        is_binary = isinstance(held_out.label, Binary)
        names[split] = {held_out.names[int(one)] if is_binary else str(one) for one in top}
    return sorted(names["train"] - names["eval"])


def _without(split: str, names: Sequence[str]) -> str:
    return f"no example of the {split} split is {_listed([repr(name) for name in names])}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NUM_SHOWN} more" * (len(names) > NUM_SHOWN)
    return ", ".join(names[:NUM_SHOWN]) + more
