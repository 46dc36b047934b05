"""Errors of a model: confusion of classes, residuals of a number, rows by label, mistakes."""

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from components.shared.pages.charts.axis import round_axis
from components.shared.pages.charts.plot import box_chart, point_chart
from components.shared.pages.formats import number, percent
from components.shared.text.value_text import shown_value, time_text
from trainer import Json

MAX_MATRIX = 15
MAX_PAIRS = 15
MAX_CLASSES = 100  # in tables; evaluation.json has all
LABEL_COLUMNS = {
    "label": "label",
    "share": "share of the examples",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "auc": "AUC",
}
SHARES = ("share", "precision", "recall")
DECILE_COLUMNS = {
    "low": "least prediction",
    "high": "largest prediction",
    "predicted": "mean prediction",
    "actual": "mean actual",
    "residual": "mean residual",
    "mae": "MAE",
}
IMAGE_PREFIX = "data:image/png;base64,"
PNG_IN_BASE64 = "iVBORw0KGgo"  # its signature


def confusion_view(evaluation: Json) -> Json:
    """Return the rows of the matrix, of the classes, and of the pairs most often confused."""
    labels = [str(label) for label in evaluation.get("labels", [])]
    sums = evaluation.get("by_class") or []
    confusion = evaluation.get("confusion") or []
    shown = list(range(len(sums)))
    if len(labels) > MAX_CLASSES:
        num_wrong = [examples + predicted - 2 * hits for examples, predicted, hits in sums]
        shown = sorted(shown, key=lambda at: -num_wrong[at])[:MAX_CLASSES]
    is_large = len(labels) > MAX_MATRIX
    return {
        "labels": labels,
        "is_large": is_large,
        "matrix": [
            (label, [_cell(count, sum(row), at == column) for column, count in enumerate(row)])
            for at, (label, row) in enumerate(zip(labels, confusion, strict=bool(confusion)))
        ],
        "classes": [
            (labels[at], number(examples), _percent(hits, examples), _percent(hits, predicted))
            for at, (examples, predicted, hits) in ((at, sums[at]) for at in shown)
        ],
        "limit": _limit(labels, "most mistakes"),
        "pairs": [
            (labels[a], labels[b], number(count), _percent(count, sums[a][0]))
            for a, b, count in evaluation.get("pairs", [])[:MAX_PAIRS]
        ]
        if is_large
        else [],
    }


def _cell(count: int, total: int, is_hit: bool) -> tuple[int, str, float]:
    """Return a cell of the matrix: its count, class and depth of colour."""
    if count == 0:
        return 0, "empty", 0.0
    # The square root keeps one mistake in a hundred visible beside the hits.
    share = min(math.sqrt(count / total) * (0.6 if is_hit else 3), 0.9)
    return count, "hit" if is_hit else "miss", share


def residual_view(evaluation: Json) -> Json:
    """Return predicted against actual values, and residuals by decile."""
    curves = evaluation.get("curves", {})
    deciles = curves.get("residuals") or []
    return {
        "charts": [_against(curves.get("points", {})), _residuals(deciles)],
        "head": ("tenth", "examples", *DECILE_COLUMNS.values()),
        "rows": [
            (at, number(row["num_examples"]), *(number(row.get(name)) for name in DECILE_COLUMNS))
            for at, row in enumerate(deciles, start=1)
        ],
    }


def label_view(evaluation: Json) -> Json:
    """Return a row for each label of an example that has several."""
    rows = evaluation.get("by_label") or []
    names = [name for name in LABEL_COLUMNS if rows and name in rows[0]]
    if len(rows) > MAX_CLASSES:
        rows = sorted(rows, key=lambda row: -(row.get("share") or 0))
    return {
        "limit": _limit(rows, "most examples"),
        "head": [LABEL_COLUMNS[name] for name in names],
        "rows": [
            [(percent if name in SHARES else number)(row.get(name)) for name in names]
            for row in rows[:MAX_CLASSES]
        ],
    }


def _limit(rows: Sequence[Any], order: str) -> str:
    if len(rows) <= MAX_CLASSES:
        return ""
    return f" (the {MAX_CLASSES} with the {order}; evaluation.json has all {len(rows):,})"


def mistakes_view(evaluation: Json) -> Json:
    """Return the surest mistakes, or the largest errors: pictures, or rows of one table."""
    mistakes = evaluation.get("mistakes") or []
    is_number = bool(evaluation.get("curves", {}).get("residuals"))
    pictures = [m for m in mistakes if str(m.get("image", "")).startswith(IMAGE_PREFIX)]
    others = [mistake for mistake in mistakes if mistake not in pictures]
    instances = [
        fields if isinstance(fields := mistake.get("instance"), dict) else {"value": fields}
        for mistake in others
    ]
    names = list(dict.fromkeys(name for fields in instances for name in fields))
    times = evaluation.get("times", ())
    num_wrong, num_shown = evaluation.get("num_mistakes"), len(mistakes)
    if is_number:
        words = f"The {num_shown} predictions farthest from the actual value"
    elif num_wrong is None:
        words = f"{num_shown} mistakes"
    else:
        shown = f"the {num_shown} most confident" if num_shown < num_wrong else "all"
        words = f"{num_wrong:,} in total; {shown}, in order of confidence"
    return {
        "title": "Largest errors" if is_number else "Surest mistakes",
        "has_none": num_wrong == 0,
        "words": words,
        "pictures": [(m["image"], m.get("index"), *_result(m)) for m in pictures],
        "head": ("label", "predicted", "", *names),
        "rows": [
            (*_result(mistake), *(_field(fields, name, times) for name in names))
            for mistake, fields in zip(others, instances, strict=True)
        ],
    }


def _result(mistake: Json) -> tuple[str, str, str]:
    confidence = mistake.get("confidence")
    sure = percent(confidence) if isinstance(confidence, float) else ""
    return shown_value(mistake.get("label")), shown_value(mistake.get("predicted")), sure


def _field(fields: Json, name: str, times: Sequence[str]) -> str:
    """Return a field's value, of a picture itself, of a time its date; "" without the field."""
    value = fields.get(name, "")
    if name in times and isinstance(value, int):
        return time_text(value)
    data = value.get("b64") if isinstance(value, dict) else None
    if not isinstance(data, str) or not data.startswith(PNG_IN_BASE64):
        return shown_value(value)
    return Markup('<img src="{}{}" alt="picture">').format(IMAGE_PREFIX, data)


def _against(points: Json) -> str:
    actual, predicted = points.get("actual") or [], points.get("predicted") or []
    known = [
        (a, b) for a, b in zip(actual, predicted, strict=False) if a is not None and b is not None
    ]
    if not known:
        return ""
    values = [value for pair in known for value in pair]
    return point_chart(
        known,
        x=round_axis(values, title="actual value"),
        y=round_axis(values, title="predicted value"),
        text="Predicted against actual values",
    )


def _residuals(deciles: Sequence[Json]) -> str:
    boxes = [row["residual_shares"] for row in deciles if None not in row["residual_shares"]]
    if not boxes:
        return ""
    return box_chart(
        boxes,
        x_title="tenth of the examples, by predicted value",
        y=round_axis([v for box in boxes for v in box], title="residual", has_zero=True),
        text="Residuals",
    )


def _percent(part: int, whole: int) -> str:
    return percent(part / whole if whole else None)
