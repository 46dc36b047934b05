"""Reasons why a metric is not defined on some examples, and checks of the classes in them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from components.evaluate.held_out import HeldOut
from components.evaluate.thresholds import Check
from components.model_version.companions import STATISTICS_FILE
from components.prepare_examples.output.publish import MANIFEST
from components.shared.text.json_object import read_object
from components.shared.text.value_text import first_of
from trainer.metrics.class_metrics import find_not_finite
from trainer.workloads.declarations.labels import Binary, Label

TEST_SPLIT = "the test split"
NUM_SHOWN = 5


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
    why = held_out.label.why_undefined(metric, labels, held_out.names, examples)
    return why or f"its value on {examples} is not a finite number"


def check_classes(held_out: HeldOut, examples_dir: str) -> list[Check]:
    """Return a check, met but not sure, for classes about which this evaluation says nothing good.

    They are the classes that the model never predicts though examples have them, and those without
    an example in the test or the eval split.
    """
    if not held_out.label.has_classes or len(find_not_finite(held_out.predictions)):
        return []
    size = len(held_out.names)
    actual = np.bincount(held_out.labels, minlength=size)
    predicted = held_out.label.predicted(held_out.predictions)
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
        texts.append(f"the model never predicts {first_of(named, NUM_SHOWN)}{advice}")
    if absent:
        texts.append(_without("test", absent))
    if unseen := absent_classes(examples_dir, held_out.label).get("eval"):
        texts.append(_without("eval", unseen))
    return [Check(name="classes", is_ok=True, is_sure=False, text=text) for text in texts]


def absent_classes(examples_dir: str | Path, label: Label) -> dict[str, list[str]]:
    """Return the classes of train without an example in another split, by split.

    Without statistics, or if these do not list all classes, the result is empty.
    """
    path, manifest = Path(examples_dir, STATISTICS_FILE), Path(examples_dir, MANIFEST)
    if not label.has_classes or not path.is_file():
        return {}
    names = label.names_of_classes() if isinstance(label, Binary) else ()
    if manifest.is_file():  # of class folders, whose examples have numbers
        names = read_object(manifest).get("labels", names)
    classes: dict[str, set[str]] = {}
    for split, content in read_object(path).get("splits", {}).items():
        values = content["features"].get(label.column, {})
        top = [value for value, _ in values.get("top_values", ())]
        if not top or len(top) < values.get("num_unique", 0):
            return {}
        classes[split] = {names[int(one)] if names else str(one) for one in top}
    absent = {split: sorted(classes["train"] - own) for split, own in classes.items()}
    return {split: missing for split, missing in absent.items() if missing}


def _without(split: str, names: Sequence[str]) -> str:
    return f"no example of the {split} split is {first_of(list(map(repr, names)), NUM_SHOWN)}"
