"""HTML report of an evaluation; one file, which needs no network."""

import base64
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.evaluate.held_out import HeldOut
from components.evaluate.roc import RocCurve, draw_roc
from components.evaluate.thresholds import Judgement, format_metric
from trainer.workloads.image_files import encode_png

if TYPE_CHECKING:
    from trainer.serving.evaluate import Evaluation

TEMPLATE = Path(__file__).with_name("report.html")
PERCENT_METRICS = frozenset({"accuracy"})


def render_report(
    workload: str,
    evaluation: "Evaluation",
    judgement: Judgement,
    *,
    held_out: HeldOut,
    roc: RocCurve | None,
) -> str:
    """Return the page: verdict, metrics, confusion matrix, classes and mistakes.

    Args:
        workload: Name of the workload, for the title.
        evaluation: Metrics and confusion matrix of the test split.
        judgement: The verdict and its reasons.
        held_out: The test split; of a mistake, its feature `image` is shown, or else all fields.
        roc: The ROC curve, if there is one.
    """
    labels, confusion = evaluation.labels, evaluation.confusion
    return Template(TEMPLATE.read_text()).substitute(
        title=escape(f"{workload}: {judgement.verdict}"),
        tiles=_tiles(evaluation, judgement),
        reasons="".join(f"<li>{escape(reason)}</li>" for reason in judgement.reasons),
        heat_map=_heat_map(labels, confusion),
        classes=_classes(labels, confusion),
        roc=draw_roc(roc),
        mistakes_note=_mistakes_note(confusion, len(held_out.mistakes)),
        mistakes="".join(_figure(held_out, index, labels) for index in held_out.mistakes),
    )


def class_scores(confusion: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
    """Return (recall, precision) of each class; nan for a class without examples or predictions."""
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
    return f"<table><tr><td></td>{head}</tr>{rows}</table>"


def _cell(count: int, total: int, *, is_hit: bool) -> str:
    if count == 0:
        return '<td class="empty">0</td>'
    # The square root keeps one mistake in a hundred visible beside the hits.
    share = math.sqrt(count / total) * (0.6 if is_hit else 3)
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


def _mistakes_note(confusion: Sequence[Sequence[int]], num_shown: int) -> str:
    num_wrong = sum(map(sum, confusion)) - sum(row[at] for at, row in enumerate(confusion))
    if num_wrong == 0:
        return "No mistakes."
    shown = (
        f"the {num_shown} most confident are shown" if num_shown < num_wrong else "all are shown"
    )
    return f"{num_wrong:,} in total; {shown}, in order of confidence."


def _figure(held_out: HeldOut, index: int, labels: Sequence[str]) -> str:
    probabilities = held_out.probabilities[index]
    true_label, label = labels[held_out.labels[index]], labels[probabilities.argmax()]
    about = escape(f"test example {index}, true class {true_label}", quote=True)
    image = held_out.rows[index].get("image")
    picture = (
        f'<img src="{_data_uri(image)}" alt="{about}" title="{about}">'
        if image is not None
        else _fields(held_out.instance(index))
    )
    confidence = f"{probabilities.max():.1%}"
    caption = f"<b>{escape(true_label)}</b> predicted as <b>{escape(label)}</b> ({confidence})"
    css = "" if image is not None else ' class="fields"'
    return f"<figure{css}>{picture}<figcaption>{caption}</figcaption></figure>"


def _data_uri(image: NDArray[np.uint8]) -> str:
    """Return an image (height, width) or (height, width, 3) as the `src` of an `<img>`."""
    return "data:image/png;base64," + base64.b64encode(encode_png(image)).decode("ascii")


def _fields(instance: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(_short(value))}</td></tr>'
        for name, value in instance.items()
    )
    return f"<table>{rows}</table>"


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _percent(share: float) -> str:
    return "n/a" if math.isnan(share) else f"{share:.1%}"
