"""Section on parts of the test split, the worst first, with the interval of each gain."""

import math
from html import escape

from components.shared.pages.charts.axis import Axis, round_axis
from components.shared.pages.charts.bars import bar
from components.shared.pages.html import details, measured, number, section, signed, table
from trainer import Json
from trainer.metrics.directions import LOWER_IS_BETTER

MAX_OPEN = 12


def slices_section(evaluation: Json) -> str:
    """Return a table of the slices: those that failed, then the others, the worst first.

    With a champion the worst has the least gain over it, otherwise the worst metric. Of many
    slices that did not fail, the better ones are folded.
    """
    slices = sorted(evaluation.get("slices") or [], key=_badness)
    if not slices:
        return ""
    has_champion = any(part.get("champion") is not None for part in slices)
    names = ("low", "high") if has_champion else ("candidate",)
    values = [part[name] for part in slices for name in names if part.get(name) is not None]
    metric = str(slices[0]["metric"])
    axis = round_axis(values, title=metric, has_zero=has_champion)
    note = (
        f"Bar: gain in {metric} over the champion, axis {axis.low:g} to {axis.high:g}; line: its"
        " interval, so wide that all hold together; grey if it includes zero."
        if has_champion
        else f"Bar: {metric} of the model, axis {axis.low:g} to {axis.high:g}."
    )
    num_open = max(MAX_OPEN, sum(part["ok"] is False for part in slices))
    rows = [_row(part, axis)[: 4 if has_champion else 3] for part in slices]
    head = ("slice, the worst first", "", metric, *["champion"] * has_champion)
    further = rows[num_open:]
    more = details(f"{len(further)} better slices", table(head, further, css="slices"))
    body = table(head, rows[:num_open], css="slices") + more * bool(further)
    return section("Slices", body, note=note)


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
    is_unsure = gain is not None and part["low"] <= 0 <= part["high"]
    drawn = (
        bar(
            value,
            axis=axis,
            interval=None if gain is None else (part["low"], part["high"]),
            css="bad" if part["ok"] is False else "unsure" * is_unsure,
            text=f"{part['feature']} {part['value']}: {signed(value)}",
        )
        if value is not None
        else ""
    )
    mark = ' <b class="bad">✗ worse</b>' if part["ok"] is False else ""
    name = escape(f"{part['feature']} {part['value']}".strip())
    return (
        f"{name}{mark}<small>{part['num_examples']:,} examples</small>",
        drawn or escape(part.get("undefined", "")),
        measured(candidate),
        number(champion),
    )
