"""Predictions beside the true labels, as a table in plain text."""

import json
from collections.abc import Sequence
from typing import Any

from components.shared.text.value_text import MAX_TEXT, cut, shown_value


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


def _class_line(prediction: Any, label: Any) -> str:
    predicted = str(prediction["label"])
    probability = max(prediction["probabilities"], default=float("nan"))
    mark = "yes" if predicted == label else "no"
    return f"{predicted:<10} {probability:>11.6f}  {label:<10}  {mark}"


def _labels_line(prediction: Any, label: Any) -> str:
    mark = "yes" if set(prediction["labels"]) == set(label) else "no"
    return f"{shown_value(prediction['labels']):<30}  {shown_value(label):<30}  {mark}"


def _value_line(prediction: Any, label: Any) -> str:
    value = prediction["value"]
    return f"{value:>12.6g}  {shown_value(label):>12}  {value - label:>12.4g}"


def _other_line(prediction: Any, label: Any) -> str:
    return f"{cut(json.dumps(prediction)):<{MAX_TEXT}}  {shown_value(label)}"


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
    return all(
        isinstance(prediction, dict) and set(fields) <= set(prediction)
        for prediction in predictions
    )
