"""Section on parts of the test split: a bar for each, with the interval of its gain."""

from collections.abc import Sequence
from html import escape
from itertools import groupby

from components.shared.pages.charts.axis import Axis, round_axis
from components.shared.pages.charts.bars import bar
from components.shared.pages.html import details, measured, number, section, signed, table
from trainer import Json

MAX_OPEN = 24


def slices_section(evaluation: Json) -> str:
    """Return a table for each feature; of many slices, only tables with a failure are open."""
    slices = evaluation.get("slices") or []
    if not slices:
        return ""
    has_champion = any(part.get("champion") is not None for part in slices)
    values = [value for part in slices for value in _values(part, has_champion=has_champion)]
    metric = str(slices[0]["metric"])
    axis = round_axis(values, title=metric, has_zero=has_champion)
    groups = [(str(feature), list(rows)) for feature, rows in groupby(slices, _heading)]
    tables = [
        _group(feature, rows, axis, is_open=len(slices) <= MAX_OPEN) for feature, rows in groups
    ]
    note = (
        f"Bar: gain in {metric} over the champion, axis {axis.low:g} to {axis.high:g}; line: its"
        " interval, so wide that all hold together."
        if has_champion
        else f"Bar: {metric} of the model, axis {axis.low:g} to {axis.high:g}."
    )
    return section("Slices", *tables, note=note)


def _group(feature: str, rows: Sequence[Json], axis: Axis, *, is_open: bool) -> str:
    body = table(
        (feature, "", str(rows[0]["metric"]), "champion"),
        [_row(row, axis) for row in rows],
        css="slices",
    )
    is_shown = is_open or any(row["ok"] is False for row in rows)
    return body if is_shown else details(f"{feature}: {len(rows)} slices, all in order", body)


def _row(part: Json, axis: Axis) -> tuple[str, ...]:
    champion, candidate = part.get("champion"), part.get("candidate")
    low, high = part.get("low"), part.get("high")
    interval = None if low is None or high is None else (low, high)
    gain = (interval[0] + interval[1]) / 2 if interval else None
    value = candidate if champion is None else gain
    drawn = (
        bar(
            value,
            axis=axis,
            interval=interval,
            css="bad" if part["ok"] is False else "",
            text=f"{part['feature']} {part['value']}: {signed(value)}",
        )
        if value is not None
        else ""
    )
    mark = ' <b class="bad">✗ worse</b>' if part["ok"] is False else ""
    name = escape(str(part["value"]) or str(part["feature"]))
    return (
        f"{name}{mark}<small>{part['num_examples']:,} examples</small>",
        drawn or escape(part.get("undefined", "")),
        measured(candidate),
        number(champion),
    )


def _heading(part: Json) -> str:
    """Return the feature of a slice; slices by a condition, which have no value, form one group."""
    return str(part["feature"]) if part["value"] != "" else "condition"


def _values(part: Json, *, has_champion: bool) -> list[float]:
    names = ("low", "high") if has_champion else ("candidate",)
    return [part[name] for name in names if part.get(name) is not None]
