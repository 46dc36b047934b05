"""Sections of the report on a model of classes: the confusion matrix and the scores by class."""

import math
from collections.abc import Sequence
from html import escape

from components.evaluate.roc import RocCurve, draw_roc
from components.evaluate.tables import format_share, table


def class_sections(
    labels: Sequence[str], confusion: Sequence[Sequence[int]], *, roc: RocCurve | None
) -> str:
    """Return the sections; the ROC curve is that of two classes."""
    return (
        "<h2>Confusion matrix</h2>\n"
        "<p>Rows: true class. Columns: predicted class. Colour: share of the row.</p>\n"
        f'<div class="wide">{_heat_map(labels, confusion)}</div>\n'
        f'<h2>By class</h2>\n<div class="wide">{_classes(labels, confusion)}</div>\n'
        f"{draw_roc(roc)}"
    )


def class_scores(confusion: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
    """Return (recall, precision) of each class; nan for a class without examples or predictions."""
    columns = list(zip(*confusion, strict=True))
    return [
        (_share(row[index], sum(row)), _share(row[index], sum(columns[index])))
        for index, row in enumerate(confusion)
    ]


def _heat_map(labels: Sequence[str], confusion: Sequence[Sequence[int]]) -> str:
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in labels)
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th>'
        + "".join(_cell(count, sum(row), is_hit=at == column) for column, count in enumerate(row))
        + "</tr>"
        for at, (label, row) in enumerate(zip(labels, confusion, strict=True))
    )
    return f"<table><tr><td></td>{head}</tr>{rows}</table>"


def _cell(count: int, total: int, *, is_hit: bool) -> str:
    if count == 0:
        return '<td class="empty">0</td>'
    # The square root keeps one mistake in a hundred visible beside the hits.
    share = math.sqrt(count / total) * (0.6 if is_hit else 3)
    css = "hit" if is_hit else "miss"
    return f'<td class="{css}" style="--share: {min(share, 0.9):.2f}">{count:,}</td>'


def _classes(labels: Sequence[str], confusion: Sequence[Sequence[int]]) -> str:
    return table(
        ("class", "examples", "recall", "precision"),
        [
            (label, f"{sum(row):,}", format_share(recall), format_share(precision))
            for label, row, (recall, precision) in zip(
                labels, confusion, class_scores(confusion), strict=True
            )
        ],
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan
