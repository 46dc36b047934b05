"""The table of docs/training.md: what of `compile` and `fit` is taken over, from the cases."""

from collections.abc import Iterable, Sequence

from tests.trainer.support.plain_fit import Case

_SAME, _REFUSED, _OTHER = "same", "refused", "other"


def make_table(cases: Iterable[Case]) -> str:
    """Return the table in Markdown, with a row for each argument."""
    rows: dict[str, dict[str, list[str]]] = {}
    for case in cases:
        kind = _REFUSED if case.refusal else _OTHER if case.is_other else _SAME
        for argument, values in case.says.items():
            row = rows.setdefault(argument, {_SAME: [], _REFUSED: [], _OTHER: []})
            row[kind] += [value for value in values if value not in row[kind]]
    lines = ["| argument | as in `fit` | otherwise |", "|---|---|---|"]
    for argument, row in rows.items():
        others = [*_joined("refused: ", row[_REFUSED]), *row[_OTHER]]
        lines.append(f"| {argument} | {'; '.join(row[_SAME])} | {'; '.join(others)} |")
    return "\n".join(lines) + "\n"


def _joined(first: str, values: Sequence[str]) -> list[str]:
    return [first + "; ".join(values)] if values else []
