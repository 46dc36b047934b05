"""The examples: rows by split, and what changed since the champion's."""

from components.prepare_examples.statistics.drift import MARKED, NOTICEABLE, Drift, measure_drift
from components.run_result.report.content import Content
from components.shared.pages.charts.axis import Axis, round_axis
from components.shared.pages.charts.plot import bar
from components.shared.pages.formats import number
from trainer import Json


def split_table(content: Content) -> Json:
    """Return the head and the rows of the splits' examples, beside the champion's if it has any."""
    splits = _counts(content.statistics)
    before = _counts(content.champion_statistics)
    axis = round_axis([*splits.values(), *before.values()], title="examples", has_zero=True)
    head = ["split", "examples", ""]
    rows = [
        [name, number(count), bar(count, axis=axis, text=f"{count} examples")]
        for name, count in splits.items()
    ]
    if before:
        head.append("champion's")
        for row in rows:
            row.append(number(before.get(row[0])))
    return {"head": head, "rows": rows}


def drift_view(statistics: Json, before: Json) -> Json:
    """Return the drift of each feature from the champion's statistics, the largest first.

    There is none without statistics of features in both.
    """
    if not (_has_features(statistics) and _has_features(before)):
        return {}
    drifts = measure_drift(statistics, before)
    # A shift that hardly counts has a short bar, however small all are.
    axis = round_axis([MARKED, *(drift.psi for drift in drifts)], title="PSI", has_zero=True)
    return {
        "rows": [_drift_row(drift, axis) for drift in drifts],
        "has_any": any(drift.psi for drift in drifts),
        "num_open": sum(not drift.psi < NOTICEABLE for drift in drifts),
        "noticeable": f"{NOTICEABLE:g}",
        "marked": f"{MARKED:g}",
        "high": f"{axis.high:g}",
    }


def _drift_row(drift: Drift, axis: Axis) -> tuple[str, ...]:
    css = "bad" if drift.psi > MARKED else ""
    return (
        drift.feature,
        number(drift.psi),
        bar(drift.psi, axis=axis, text=f"PSI {drift.psi:.3f}", css=css),
        drift.words.removeprefix(f"{drift.feature}: "),
    )


def _counts(statistics: Json) -> dict[str, int]:
    return {
        name: int(split.get("num_examples", 0))
        for name, split in statistics.get("splits", {}).items()
    }


def _has_features(statistics: Json) -> bool:
    return bool(statistics.get("splits", {}).get("train", {}).get("features"))
