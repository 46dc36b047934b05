"""Section on the examples: rows by split, remarks, and what changed since the champion's."""

from html import escape

from components.prepare_examples.statistics.drift import MARKED, NOTICEABLE, Drift, measure_drift
from components.shared.pages.charts.axis import Axis, round_axis
from components.shared.pages.charts.bars import bar
from components.shared.pages.html import details, listed, number, section, table
from components.shared.run_report.content import Content
from trainer import Json


def data_section(content: Content) -> str:
    """Return the section."""
    notes = list(dict.fromkeys([*content.summary.data_notes, *content.summary.drift]))
    return section(
        "Data",
        _splits(content),
        changes_of_data(content.statistics, content.champion_statistics),
        listed(notes),
    )


def _splits(content: Content) -> str:
    splits = _counts(content.statistics)
    before = _counts(content.champion_statistics)
    if not splits:
        return ""
    axis = round_axis([*splits.values(), *before.values()], title="examples", has_zero=True)
    rows = [
        (
            escape(name),
            f"{count:,}",
            bar(count, axis=axis, text=f"{count} examples"),
            *([f"{before[name]:,}" if name in before else "n/a"] if before else []),
        )
        for name, count in splits.items()
    ]
    return table(("split", "examples", "", *["champion's"] * bool(before)), rows, css="numbers")


def changes_of_data(statistics: Json, before: Json) -> str:
    """Return the drift of each feature from the champion's statistics, the largest first."""
    if not (_has_features(statistics) and _has_features(before)):
        return ""
    drifts = measure_drift(statistics, before)
    if not any(drift.psi for drift in drifts):
        return "<p>No feature has changed since the champion's.</p>" * bool(drifts)
    # A shift that hardly counts has a short bar, however small all are.
    axis = round_axis([MARKED, *(drift.psi for drift in drifts)], title="PSI", has_zero=True)
    num_open = sum(not drift.psi < NOTICEABLE for drift in drifts)
    further = drifts[num_open:]
    shown = _drift_table(drifts[:num_open], axis) if num_open else ""
    few = f"{len(further)} features with hardly any change"
    more = details(few, _drift_table(further, axis)) if further else ""
    return (
        "<h3>Train split, compared with the champion's</h3>"
        '<p class="note">PSI is the population stability index: below'
        f" {NOTICEABLE:g} hardly any change, above {MARKED:g} a marked one. Axis 0 to"
        f" {axis.high:g}. The last column has the value whose share changed most.</p>{shown}{more}"
    )


def _drift_table(drifts: list[Drift], axis: Axis) -> str:
    return table(
        ("feature", "PSI", "", "largest change"),
        [
            (
                escape(drift.feature),
                number(drift.psi),
                bar(
                    drift.psi,
                    axis=axis,
                    text=f"PSI {drift.psi:.3f}",
                    css="bad" if drift.psi > MARKED else "",
                ),
                escape(drift.words.removeprefix(f"{drift.feature}: ")),
            )
            for drift in drifts
        ],
    )


def _counts(statistics: Json) -> dict[str, int]:
    return {
        name: int(split.get("num_examples", 0))
        for name, split in statistics.get("splits", {}).items()
    }


def _has_features(statistics: Json) -> bool:
    return bool(statistics.get("splits", {}).get("train", {}).get("features"))
