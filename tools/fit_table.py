"""python -m tools.fit_table writes the table of docs/training.md: what of `fit` is taken over.

It is made from the cases that tests/trainer/training/test_as_fit.py trains by both.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from tests.trainer.support.plain_cases import CASES
from tests.trainer.support.plain_fit import Case

PAGE = Path(__file__).parents[1] / "docs" / "training.md"
HEAD = ("| argument | as in `fit` | otherwise |", "|---|---|---|")
_TABLE = re.compile(re.escape(HEAD[0]) + r"\n(?:\|.*\n)+")


def make_table(cases: Iterable[Case]) -> str:
    """Return the table in Markdown, with a row for each argument."""
    rows: dict[str, dict[str, dict[str, None]]] = {}
    for case in cases:
        kind = "refused" if case.refusal else "other" if case.is_other else "same"
        for argument, values in case.says.items():
            row = rows.setdefault(argument, {"same": {}, "refused": {}, "other": {}})
            row[kind] |= dict.fromkeys(values)
    lines = [*HEAD]
    for argument, row in rows.items():
        refused = ["refused: " + "; ".join(row["refused"])] if row["refused"] else []
        others = "; ".join([*refused, *row["other"]])
        lines.append(f"| {argument} | {'; '.join(row['same'])} | {others} |")
    return "\n".join(lines) + "\n"


def render(text: str) -> str:
    """Return the page with the table of the cases."""
    return _TABLE.sub(lambda _: make_table(CASES), text)


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
