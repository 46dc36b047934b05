"""Section of the report on a model of several labels at once: the scores by label."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.evaluate.tables import format_share, table

if TYPE_CHECKING:
    from trainer.serving.evaluate import Row


def label_sections(by_label: Sequence["Row"]) -> str:
    """Return the section, from the rows of `score_labels`."""
    rows = [
        (
            row["label"],
            *(format_share(row[name]) for name in ("share", "precision", "recall")),
            f"{row['f1']:.3f}",
            "n/a" if math.isnan(row["auc"]) else f"{row['auc']:.3f}",
        )
        for row in by_label
    ]
    headings = ("label", "share of the examples", "precision", "recall", "F1", "AUC")
    return (
        "<h2>By label</h2>\n<p>A label is predicted from probability 0.5 on.</p>\n"
        f'<div class="wide">{table(headings, rows)}</div>\n'
    )
