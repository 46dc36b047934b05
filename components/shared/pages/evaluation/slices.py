"""Slices of the test split, the worst first, and the inputs by importance, with intervals."""

import math

from markupsafe import Markup

from components.shared.pages.charts.axis import Axis, round_axis
from components.shared.pages.charts.plot import bar
from components.shared.pages.formats import measured, number, signed
from trainer import Json
from trainer.metrics.directions import LOWER_IS_BETTER


def slices_view(slices: list[Json]) -> Json:
    """Return a row for each slice: those that failed, then the others, the worst first.

    With a champion the worst has the least gain over it, otherwise the worst metric.
    """
    if not slices:
        return {}
    has_champion = any(part.get("champion") is not None for part in slices)
    names = ("low", "high") if has_champion else ("candidate",)
    values = [part[name] for part in slices for name in names if part.get(name) is not None]
    metric = str(slices[0]["metric"])
    axis = round_axis(values, title=metric, has_zero=has_champion)
    rows = [_row(part, axis) for part in sorted(slices, key=_badness)]
    return {
        "metric": metric,
        "has_champion": has_champion,
        "ends": f"axis {axis.low:g} to {axis.high:g}",
        "rows": rows if has_champion else [row[:-1] for row in rows],
        "num_failed": sum(part["ok"] is False for part in slices),
    }


def _badness(part: Json) -> tuple[bool, bool, float]:
    """Return a key that sorts slices by what is worst; without a value they are last."""
    value = _gain(part)
    if value is None and part.get("candidate") is not None:
        value = part["candidate"] * (-1 if part["metric"] in LOWER_IS_BETTER else 1)
    return part["ok"] is not False, value is None, math.inf if value is None else value


def _gain(part: Json) -> float | None:
    low, high = part.get("low"), part.get("high")
    return None if low is None or high is None else float(low + high) / 2


def _row(part: Json, axis: Axis) -> tuple[str, ...]:
    champion, candidate, gain = part.get("champion"), part.get("candidate"), _gain(part)
    value = candidate if champion is None else gain
    css = "bad" if part["ok"] is False else ""
    if not css and gain is not None and part["low"] <= 0 <= part["high"]:
        css = "unsure"
    drawn = part.get("undefined", "")
    if value is not None:
        drawn = bar(
            value,
            axis=axis,
            interval=None if gain is None else (part["low"], part["high"]),
            css=css,
            text=f"{part['feature']} {part['value']}: {signed(value)}",
        )
    mark = Markup(' <b class="bad">✗ worse</b>' if part["ok"] is False else "")
    name = f"{part['feature']} {part['value']}".strip()
    about = Markup("{}{}<small>{:,} examples</small>").format(name, mark, part["num_examples"])
    return about, drawn, measured(candidate), number(champion)


def importance_rows(rows: list[Json]) -> list[tuple[str, ...]]:
    """Return a name, a bar and the loss for each column, the most important first."""
    if not rows:
        return []
    ends = [row[name] for row in rows for name in ("low", "high")]
    axis = round_axis([*ends, 0.0], title=str(rows[0]["metric"]), has_zero=True)
    return [
        (
            str(row["feature"]),
            bar(
                row["loss"],
                axis=axis,
                interval=(row["low"], row["high"]),
                css="unsure" if row["low"] <= 0 <= row["high"] else "",
                text=f"{row['feature']}: {signed(row['loss'])}",
            ),
            signed(row["loss"]),
        )
        for row in rows
    ]
