"""Section on the importance of the inputs: a bar for each column, with its interval."""

from html import escape

from components.shared.pages.charts.axis import round_axis
from components.shared.pages.charts.bars import bar
from components.shared.pages.html import details, section, signed, table
from trainer import Json

MAX_OPEN = 12


def importance_section(evaluation: Json) -> str:
    """Return the columns, the most important first; "" without any."""
    rows = evaluation.get("importance") or []
    if not rows:
        return ""
    metric = str(rows[0]["metric"])
    ends = [row[name] for row in rows for name in ("low", "high")]
    axis = round_axis([*ends, 0.0], title=metric, has_zero=True)
    cells = [
        (
            escape(str(row["feature"])),
            bar(
                row["loss"],
                axis=axis,
                interval=(row["low"], row["high"]),
                css="unsure" * (row["low"] <= 0 <= row["high"]),
                text=f"{row['feature']}: {signed(row['loss'])}",
            ),
            signed(row["loss"]),
        )
        for row in rows
    ]
    head = ("column", "", f"loss in {metric}")
    more = cells[MAX_OPEN:]
    return section(
        "Importance of the columns",
        table(head, cells[:MAX_OPEN], css="slices"),
        details(f"{len(more)} more columns", table(head, more, css="slices")) if more else "",
        note=f"Loss in {metric} on the test split when the values of one column are shuffled; line:"
        " its interval, grey if that includes zero. Columns that say the same share their"
        " importance.",
    )
