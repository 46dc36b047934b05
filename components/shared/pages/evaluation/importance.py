"""Importance of the inputs: a bar for each column, with its interval."""

from components.shared.pages.charts.axis import round_axis
from components.shared.pages.charts.bars import bar
from components.shared.pages.formats import signed
from trainer import Json


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
