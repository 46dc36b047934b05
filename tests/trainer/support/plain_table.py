"""The table of docs/training.md: what of `compile` and `fit` is taken over, from the cases."""

from collections.abc import Iterable

from tests.trainer.support.plain_fit import Case


def make_table(cases: Iterable[Case]) -> str:
    """Return the table in Markdown, with a row for each argument."""
    rows: dict[str, dict[str, dict[str, None]]] = {}
    for case in cases:
        kind = "refused" if case.refusal else "other" if case.is_other else "same"
        for argument, values in case.says.items():
            row = rows.setdefault(argument, {"same": {}, "refused": {}, "other": {}})
            row[kind] |= dict.fromkeys(values)
    lines = ["| argument | as in `fit` | otherwise |", "|---|---|---|"]
    for argument, row in rows.items():
        refused = ["refused: " + "; ".join(row["refused"])] if row["refused"] else []
        others = "; ".join([*refused, *row["other"]])
        lines.append(f"| {argument} | {'; '.join(row['same'])} | {others} |")
    return "\n".join(lines) + "\n"
