"""Predictions beside the true labels, as a table in plain text."""

import json
from collections.abc import Sequence
from typing import Any

MAX_TEXT = 60


def format_table(predictions: Sequence[Any], labels: Sequence[Any]) -> str:
    """Return a line for each prediction, with the columns of its kind.

    They are the class and its probability, the labels, or the value; of other predictions, such as
    those of a hook, their JSON. `labels` are the true labels, as in golden.json.
    """
    kind = next((fields for fields in _FORMATS if _have(predictions, fields)), ())
    heading, format_line = _FORMATS[kind]
    lines = [f"{'index':>5}  {heading}"]
    lines += [
        f"{index:>5}  {format_line(prediction, label)}".rstrip()
        for index, (prediction, label) in enumerate(zip(predictions, labels, strict=False))
    ]
    return "\n".join(lines)


def shown_label(label: Any) -> str:
    """Return a true label as text: the labels of an example with commas between them."""
    if isinstance(label, list):
        return _cut(", ".join(map(str, label)) or "none")
    return f"{label:.6g}" if isinstance(label, float) else _cut(str(label))


def _class_line(prediction: Any, label: Any) -> str:
    predicted = str(prediction["label"])
    probability = max(prediction["probabilities"], default=float("nan"))
    mark = "yes" if predicted == label else "no"
    return f"{predicted:<10} {probability:>11.6f}  {label:<10}  {mark}"


def _labels_line(prediction: Any, label: Any) -> str:
    mark = "yes" if set(prediction["labels"]) == set(label) else "no"
    return f"{shown_label(prediction['labels']):<30}  {shown_label(label):<30}  {mark}"


def _value_line(prediction: Any, label: Any) -> str:
    value = prediction["value"]
    return f"{value:>12.6g}  {shown_label(label):>12}  {value - label:>12.4g}"


def _other_line(prediction: Any, label: Any) -> str:
    return f"{_cut(json.dumps(prediction)):<{MAX_TEXT}}  {shown_label(label)}"


# By the fields of the predictions, the first that all have.
_FORMATS: dict[tuple[str, ...], tuple[str, Any]] = {
    ("label", "probabilities"): (
        f"{'class':<10} {'probability':>11}  {'true label':<10}  ok",
        _class_line,
    ),
    ("labels", "probabilities"): (f"{'labels':<30}  {'true labels':<30}  ok", _labels_line),
    ("value",): (f"{'value':>12}  {'true value':>12}  {'difference':>12}", _value_line),
    (): (f"{'prediction':<{MAX_TEXT}}  true label", _other_line),
}


def _have(predictions: Sequence[Any], fields: tuple[str, ...]) -> bool:
    return all(isinstance(one, dict) and set(fields) <= set(one) for one in predictions)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
