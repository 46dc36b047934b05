"""Curves of two classes: ROC, precision and recall, and calibration."""

from collections.abc import Iterable, Sequence
from typing import Any

from components.shared.pages.charts.axis import Axis
from components.shared.pages.charts.plot import Point, Series, line_chart, thinned
from trainer import Json

TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def curve_charts(curves: Json) -> list[str]:
    """Return the figures; none for other kinds of labels."""
    roc = {"all thresholds": _paired(curves.get("roc"), "false_positive", "true_positive")}
    pr = {"all thresholds": _paired(curves.get("pr"), "recall", "precision")}
    bins = [(row["predicted"], row["actual"]) for row in curves.get("calibration") or []]
    if point := curves.get("at_threshold"):
        name = f"threshold {point['threshold']:.4g}"
        roc[name] = [(point["false_positive"], point["recall"])]
        pr[name] = [(point["recall"], point["precision"])]
    return [
        _chart(roc, "ROC curve", "false positive rate", "true positive rate", has_diagonal=True),
        _chart(pr, "Precision and recall", "recall", "precision"),
        _chart(
            {"": bins},
            "Calibration: share of the class by predicted probability",
            "mean predicted probability",
            "share of the class",
            has_diagonal=True,
            has_dots=True,
        ),
    ]


def _chart(
    lines: dict[str, list[Point]],
    text: str,
    x_title: str,
    y_title: str,
    *,
    has_diagonal: bool = False,
    has_dots: bool = False,
) -> str:
    series = [
        Series(name=run, points=thinned(points), style=style, has_dots=has_dots or len(points) == 1)
        for style, (run, points) in enumerate(lines.items())
        if points
    ]
    if not series:
        return ""
    return line_chart(
        series,
        x=Axis(title=x_title, low=0.0, high=1.0, ticks=TICKS),
        y=Axis(title=y_title, low=0.0, high=1.0, ticks=TICKS),
        text=text,
        has_diagonal=has_diagonal,
    )


def _paired(curve: Any, across: str, up: str) -> list[Point]:
    if not isinstance(curve, dict):
        return []
    xs: Sequence[Any] = curve.get(across) or []
    ys: Iterable[Any] = curve.get(up) or []
    return [(float(x), y) for x, y in zip(xs, ys, strict=False) if x is not None]
