"""Sections on errors: confusion of classes, residuals of a number, rows by label, mistakes."""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from components.shared.pages.charts.axis import round_axis
from components.shared.pages.charts.plot import box_chart, point_chart
from components.shared.pages.html import charts, details, number, percent, section, table
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


def confusion_section(evaluation: Json) -> str:
    """Return the matrix and the scores by class; of many classes, the pairs most often confused."""
    labels = [str(label) for label in evaluation.get("labels", [])]
    confusion, sums = evaluation.get("confusion") or [], evaluation.get("by_class") or []
    if not sums:
        return ""
    matrix, classes = _matrix(labels, confusion) if confusion else "", _classes(labels, sums)
    if len(labels) > MAX_MATRIX:
        pairs = _pairs(labels, evaluation["pairs"][:MAX_PAIRS], sums)
        more = [details(f"Recall and precision by class{_limit(labels, 'most mistakes')}", classes)]
        more += [details("Confusion matrix", matrix)] * bool(matrix)
        return section("Classes most often confused", pairs, *more)
    note = "Rows: true class. Columns: predicted class. Colour: share of the row."
    return section("Confusion matrix", matrix, classes, note=note)


def residual_section(evaluation: Json) -> str:
    """Return predicted against actual values, and residuals by decile."""
    curves = evaluation.get("curves", {})
    points, deciles = curves.get("points", {}), curves.get("residuals") or []
    body = charts(_against(points), _residuals(deciles))
    unit = evaluation.get("unit")
    return section(
        "Predictions and residuals",
        body,
        _decile_table(deciles) if body else "",
        note=f"A residual is the actual value minus the predicted one{f', in {unit}' * bool(unit)}."
        " Of each tenth of the"
        " examples, by predicted value: the line holds 80 % of the residuals, the box 50 %, the"
        " dash is the median.",
    )


def label_section(evaluation: Json) -> str:
    """Return a row for each label of an example that has several."""
    rows = evaluation.get("by_label") or []
    if not rows:
        return ""
    names = [name for name in LABEL_COLUMNS if name in rows[0]]
    if len(rows) > MAX_CLASSES:
        rows = sorted(rows, key=lambda row: -(row.get("share") or 0))
    cells = [
        [(percent if name in SHARES else number)(row.get(name)) for name in names]
        for row in rows[:MAX_CLASSES]
    ]
    return section(
        f"By label{_limit(rows, 'most examples')}",
        table([LABEL_COLUMNS[name] for name in names], cells, css="numbers"),
        note="A label is predicted from probability 0.5 on.",
    )


def _limit(rows: Sequence[Any], order: str) -> str:
    if len(rows) <= MAX_CLASSES:
        return ""
    return f" (the {MAX_CLASSES} with the {order}; evaluation.json has all {len(rows):,})"


def mistakes_section(evaluation: Json) -> str:
    """Return the surest mistakes, or the largest errors, folded: pictures, or one table."""
    mistakes = evaluation.get("mistakes") or []
    title = "Largest errors" if _is_number(evaluation) else "Surest mistakes"
    if evaluation.get("num_mistakes") == 0:
        return section(title, "<p>No mistakes.</p>")
    is_picture = [str(m.get("image", "")).startswith(IMAGE_PREFIX) for m in mistakes]
    figures = "".join(_figure(m) for m, is_one in zip(mistakes, is_picture, strict=True) if is_one)
    others = [m for m, is_one in zip(mistakes, is_picture, strict=True) if not is_one]
    body = f'<div class="gallery">{figures}</div>' * bool(figures) + _fields(
        others, times=evaluation.get("times", ())
    )
    return section(title, details(_count(evaluation, len(mistakes)), body) if body else "")


def _count(evaluation: Json, num_shown: int) -> str:
    if _is_number(evaluation):
        return f"The {num_shown} predictions farthest from the actual value"
    num_wrong = evaluation.get("num_mistakes")
    if num_wrong is None:
        return f"{num_shown} mistakes"
    shown = f"the {num_shown} most confident" if num_shown < num_wrong else "all"
    return f"{num_wrong:,} in total; {shown}, in order of confidence"


def _figure(mistake: Json) -> str:
    truth, predicted, sure = _result(mistake)
    about = f"test example {mistake.get('index')}, label {truth}"
    return (
        f'<figure class="picture"><img src="{escape(mistake["image"])}" alt="{about}"'
        f' title="{about}"><div class="caption"><b>{truth}</b> predicted as'
        f" <b>{predicted}</b> {sure}</div></figure>"
    )


def _fields(mistakes: Sequence[Json], *, times: Sequence[str]) -> str:
    instances = [
        fields if isinstance(fields := mistake.get("instance"), dict) else {"value": fields}
        for mistake in mistakes
    ]
    names = list(dict.fromkeys(name for fields in instances for name in fields))
    rows = [
        (*_result(mistake), *(_field(fields, name, times=times) for name in names))
        for mistake, fields in zip(mistakes, instances, strict=True)
    ]
    head = ("label", "predicted", "", *map(str, names))
    return table(head, rows, css="numbers") if rows else ""


def _result(mistake: Json) -> tuple[str, str, str]:
    label, predicted = (escape(shown_value(mistake.get(key))) for key in ("label", "predicted"))
    confidence = mistake.get("confidence")
    return label, predicted, percent(confidence) if isinstance(confidence, float) else ""


def _field(fields: Json, name: str, *, times: Sequence[str]) -> str:
    """Return a field's value, of a picture itself, of a time its date; "" without the field."""
    value = fields.get(name, "")
    if name in times and isinstance(value, int):
        return time_text(value)
    data = value.get("b64") if isinstance(value, dict) else None
    if not isinstance(data, str) or not data.startswith(PNG_IN_BASE64):
        return escape(shown_value(value))
    return f'<img src="{IMAGE_PREFIX}{escape(data)}" alt="picture">'


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


def _classes(labels: Sequence[str], sums: Sequence[Sequence[int]]) -> str:
    """Return a table of the classes, of many those with the most mistakes."""
    shown = list(range(len(labels)))
    if len(labels) > MAX_CLASSES:
        num_wrong = [examples + predicted - 2 * hits for examples, predicted, hits in sums]
        shown = sorted(shown, key=lambda at: -num_wrong[at])[:MAX_CLASSES]
    rows = [
        (
            escape(labels[at]),
            f"{examples:,}",
            _percent(hits, examples),
            _percent(hits, predicted),
        )
        for at, (examples, predicted, hits) in ((at, sums[at]) for at in shown)
    ]
    return table(("class", "examples", "recall", "precision"), rows, css="numbers")


def _pairs(
    labels: Sequence[str], pairs: Sequence[Sequence[int]], sums: Sequence[Sequence[int]]
) -> str:
    rows = [
        (escape(labels[a]), escape(labels[b]), f"{count:,}", _percent(count, sums[a][0]))
        for a, b, count in pairs
    ]
    return table(("true class", "predicted as", "examples", "of the class"), rows, css="numbers")


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


def _decile_table(deciles: Sequence[Json]) -> str:
    if not deciles:
        return ""
    rows = [
        (str(at), number(row["num_examples"]), *(number(row.get(name)) for name in DECILE_COLUMNS))
        for at, row in enumerate(deciles, start=1)
    ]
    head = ("tenth", "examples", *DECILE_COLUMNS.values())
    return details("Residuals by tenth", table(head, rows, css="numbers"))


def _is_number(evaluation: Json) -> bool:
    return bool(evaluation.get("curves", {}).get("residuals"))


def _percent(part: int, whole: int) -> str:
    return percent(part / whole if whole else None)
