"""The evaluation as one HTML page that needs no network: look first, read later."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from components.evaluate.golden import Mistake
from components.evaluate.pictures import data_uri
from components.evaluate.thresholds import Judgement, format_metric

if TYPE_CHECKING:
    from trainer.evaluate import Evaluation

TEMPLATE = Path(__file__).with_name("report.html")
PERCENT_METRICS = frozenset({"accuracy"})


def render_report(
    workload: str,
    evaluation: "Evaluation",
    judgement: Judgement,
    *,
    mistakes: Sequence[Mistake],
    num_searched: int,
) -> str:
    """The page: verdict and metrics, confusion matrix, classes, and pictures of mistakes.

    Args:
        workload: its name, for the title.
        evaluation: what was measured on the test split.
        judgement: the verdict and its reasons.
        mistakes: test examples that were predicted wrongly, to be shown.
        num_searched: how many test examples these were looked for in.
    """
    labels, confusion = evaluation.labels, evaluation.confusion
    return Template(TEMPLATE.read_text()).substitute(
        title=escape(f"{workload}: {judgement.verdict}"),
        tiles=_tiles(evaluation, judgement),
        reasons="".join(f"<li>{escape(reason)}</li>" for reason in judgement.reasons),
        heat_map=_heat_map(labels, confusion),
        classes=_classes(labels, confusion),
        mistakes_note=f"The first {len(mistakes)} among the first {num_searched:,} test examples.",
        mistakes="".join(_figure(mistake, labels) for mistake in mistakes),
    )


def class_scores(confusion: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
    """(recall, precision) of each class; nan where nothing is of, or taken for, the class."""
    columns = list(zip(*confusion, strict=True))
    return [
        (_share(row[index], sum(row)), _share(row[index], sum(columns[index])))
        for index, row in enumerate(confusion)
    ]


def _tiles(evaluation: "Evaluation", judgement: Judgement) -> str:
    tiles = [_tile(judgement.verdict, "verdict", css=judgement.verdict)]
    tiles += [
        _tile(f"{value:.2%}" if name in PERCENT_METRICS else format_metric(value), name)
        for name, value in evaluation.metrics.items()
    ]
    tiles.append(_tile(f"{evaluation.num_examples:,}", "test examples"))
    return "".join(tiles)


def _tile(value: str, name: str, *, css: str = "") -> str:
    return f'<div class="tile {escape(css)}"><b>{escape(value)}</b>{escape(name)}</div>'


def _heat_map(labels: Sequence[str], confusion: Sequence[Sequence[int]]) -> str:
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in labels)
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th>'
        + "".join(_cell(count, sum(row), is_hit=at == column) for column, count in enumerate(row))
        + "</tr>"
        for at, (label, row) in enumerate(zip(labels, confusion, strict=True))
    )
    caption = "Rows: the true class. Columns: the predicted one. Colour: share of the row."
    return f"<table><caption>{caption}</caption><tr><td></td>{head}</tr>{rows}</table>"


def _cell(count: int, total: int, *, is_hit: bool) -> str:
    if count == 0:
        return '<td class="empty">0</td>'
    # The square root makes a mistake in a hundred visible beside the hits.
    share = math.sqrt(count / total) * (0.6 if is_hit else 1.5)
    css = "hit" if is_hit else "miss"
    return f'<td class="{css}" style="--share: {min(share, 0.9):.2f}">{count:,}</td>'


def _classes(labels: Sequence[str], confusion: Sequence[Sequence[int]]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th><td>{sum(row):,}</td>'
        f"<td>{_percent(recall)}</td><td>{_percent(precision)}</td></tr>"
        for label, row, (recall, precision) in zip(
            labels, confusion, class_scores(confusion), strict=True
        )
    )
    head = "<tr><th>class</th><th>examples</th><th>recall</th><th>precision</th></tr>"
    return f"<table>{head}{rows}</table>"


def _figure(mistake: Mistake, labels: Sequence[str]) -> str:
    example, prediction = mistake.example, mistake.prediction
    true_label, label = labels[example.label], str(prediction["label"])
    probability = max(prediction["probabilities"])
    caption = f"<b>{escape(true_label)}</b> taken for <b>{escape(label)}</b> ({probability:.0%})"
    alt = escape(f"test example {example.index}, a {true_label}", quote=True)
    return (
        f'<figure><img src="{data_uri(example.image)}" alt="{alt}" title="{alt}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _percent(share: float) -> str:
    return "n/a" if math.isnan(share) else f"{share:.1%}"
