"""Sections on errors: confusion of classes, residuals of a number, rows by label, mistakes."""

import itertools
import math
from collections.abc import Sequence
from html import escape
from typing import Any

from components.charts.axis import round_axis
from components.charts.plot import box_chart, point_chart
from components.run_report.content import Content
from components.run_report.html import number, section, table
from components.value_text import shown_value
from trainer.json_types import Json

MAX_MATRIX = 15
MAX_PAIRS = 15
IMAGE_PREFIX = "data:image/png;base64,"


def confusion_section(content: Content) -> str:
    """Return the matrix and the scores by class; of many classes, the pairs most often confused."""
    labels = [str(label) for label in content.evaluation.get("labels", [])]
    confusion = content.evaluation.get("confusion") or []
    if not confusion:
        return ""
    if len(labels) > MAX_MATRIX:
        return section("Classes most often confused", _pairs(labels, confusion))
    return section(
        "Confusion matrix",
        _matrix(labels, confusion),
        _classes(labels, confusion),
        note="Rows: true class. Columns: predicted class. Colour: share of the row.",
    )


def residual_section(content: Content) -> str:
    """Return predicted against actual values, and residuals by decile."""
    curves = content.evaluation.get("curves", {})
    points, deciles = curves.get("points", {}), curves.get("residuals") or []
    charts = [_against(points), _residuals(deciles)]
    body = f'<div class="charts">{"".join(charts)}</div>' if any(charts) else ""
    return section(
        "Predictions and residuals",
        body,
        note="A residual is the actual value minus the predicted one. Of each tenth of the"
        " examples, by predicted value: the line holds 80 % of the residuals, the box 50 %, the"
        " dash is the median.",
    )


def label_section(content: Content) -> str:
    """Return a row for each label of an example that has several."""
    rows = content.evaluation.get("by_label") or []
    if not rows:
        return ""
    names = list(rows[0])
    cells = [[number(row.get(name)) for name in names] for row in rows]
    return section("By label", table([name.replace("_", " ") for name in names], cells))


def mistakes_section(content: Content) -> str:
    """Return the surest mistakes, or the largest errors, as pictures or as fields."""
    mistakes = content.evaluation.get("mistakes") or []
    title = "Largest errors" if _is_number(content.evaluation) else "Surest mistakes"
    return section(title, gallery(mistakes))


def gallery(mistakes: Sequence[Json]) -> str:
    """Return examples with their labels and predictions; "" without any."""
    found = "".join(_figure(mistake) for mistake in mistakes)
    return f'<div class="gallery">{found}</div>' if found else ""


def _figure(mistake: Json) -> str:
    truth, predicted = (shown_value(mistake.get(key)) for key in ("label", "predicted"))
    about = escape(f"test example {mistake.get('index')}, label {truth}")
    source = str(mistake.get("image", ""))
    is_image = source.startswith(IMAGE_PREFIX)
    picture = (
        f'<img src="{escape(source)}" alt="{about}" title="{about}">'
        if is_image
        else _fields(mistake.get("instance"))
    )
    confidence = mistake.get("confidence")
    sure = f" ({confidence:.1%})" if isinstance(confidence, float) else ""
    css = "picture" if is_image else "fields"
    return (
        f'<figure class="{css}">{picture}<div class="caption"><b>{escape(truth)}</b> predicted as'
        f" <b>{escape(predicted)}</b>{sure}</div></figure>"
    )


def _fields(instance: Any) -> str:
    fields = instance.items() if isinstance(instance, dict) else [("", instance)]
    rows = "".join(
        f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(shown_value(value))}</td></tr>'
        for name, value in fields
    )
    return f"<table>{rows}</table>"


def _matrix(labels: Sequence[str], confusion: Sequence[Sequence[int]]) -> str:
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in labels)
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th>'
        + "".join(_cell(count, sum(row), is_hit=at == column) for column, count in enumerate(row))
        + "</tr>"
        for at, (label, row) in enumerate(zip(labels, confusion, strict=True))
    )
    return f'<div class="wide"><table class="matrix"><tr><td></td>{head}</tr>{rows}</table></div>'


def _cell(count: int, total: int, *, is_hit: bool) -> str:
    if count == 0:
        return '<td class="empty">0</td>'
    # The square root keeps one mistake in a hundred visible beside the hits.
    share = min(math.sqrt(count / total) * (0.6 if is_hit else 3), 0.9)
    return f'<td class="{"hit" if is_hit else "miss"}" style="--share:{share:.2f}">{count:,}</td>'


def _classes(labels: Sequence[str], confusion: Sequence[Sequence[int]]) -> str:
    columns = [sum(column) for column in zip(*confusion, strict=True)]
    rows = [
        (
            escape(label),
            f"{sum(row):,}",
            _percent(row[at], sum(row)),
            _percent(row[at], columns[at]),
        )
        for at, (label, row) in enumerate(zip(labels, confusion, strict=True))
    ]
    return table(("class", "examples", "recall", "precision"), rows, css="numbers")


def _pairs(labels: Sequence[str], confusion: Sequence[Sequence[int]]) -> str:
    pairs = [
        (row[b], labels[a], labels[b], sum(row))
        for (a, row), b in itertools.product(enumerate(confusion), range(len(labels)))
        if a != b and row[b]
    ]
    worst = sorted(pairs, key=lambda pair: -pair[0])[:MAX_PAIRS]
    return table(
        ("true class", "predicted as", "examples", "of the class"),
        [(escape(a), escape(b), f"{count:,}", _percent(count, n)) for count, a, b, n in worst],
        css="numbers",
    )


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


def _is_number(evaluation: Json) -> bool:
    return bool(evaluation.get("curves", {}).get("residuals"))


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "n/a"
