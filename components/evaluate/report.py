"""HTML report of an evaluation; one file, which needs no network."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from components.evaluate.class_sections import class_sections
from components.evaluate.held_out import HeldOut
from components.evaluate.label_sections import label_sections
from components.evaluate.pictures import image_uri
from components.evaluate.roc import RocCurve
from components.evaluate.thresholds import Judgement, format_metric
from components.evaluate.value_sections import value_sections
from components.value_text import shown_value
from trainer.workloads.declarations.labels import Multilabel, Regression

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
    """Return the page: verdict, metrics, the sections of the label's kind, and mistakes.

    Args:
        workload: Name of the workload, for the title.
        evaluation: Metrics of the test split.
        judgement: The verdict and its reasons.
        held_out: The test split; of a mistake, its feature `image` is shown, or else all fields.
        roc: The ROC curve, if there is one.
    """
    return Template(TEMPLATE.read_text()).substitute(
        title=escape(f"{workload}: {judgement.verdict}"),
        tiles=_tiles(evaluation, judgement, held_out.num_unlabelled),
        reasons="".join(f"<li>{escape(reason)}</li>" for reason in judgement.reasons),
        sections=_sections(evaluation, held_out, roc),
        mistakes_title="Largest errors" if evaluation.by_decile else "Mistakes",
        mistakes_note=_mistakes_note(evaluation, held_out),
        mistakes="".join(_figure(held_out, index) for index in held_out.mistakes),
    )


def _sections(evaluation: "Evaluation", held_out: HeldOut, roc: RocCurve | None) -> str:
    if isinstance(held_out.label, Regression):
        return value_sections(
            held_out.predictions,
            held_out.labels,
            evaluation.by_decile,
            unit=escape(held_out.label.unit),
        )
    if isinstance(held_out.label, Multilabel):
        return label_sections(evaluation.by_label)
    return class_sections(evaluation.labels, evaluation.confusion, roc=roc)


def _tiles(evaluation: "Evaluation", judgement: Judgement, num_unlabelled: int) -> str:
    tiles = [_tile(judgement.verdict, "verdict", css=judgement.verdict)]
    tiles += [
        _tile(f"{value:.2%}" if name in PERCENT_METRICS else format_metric(value), name)
        for name, value in evaluation.metrics.items()
    ]
    tiles.append(_tile(f"{evaluation.num_examples:,}", "test examples"))
    if num_unlabelled:
        tiles.append(_tile(f"{num_unlabelled:,}", "left out, without a label"))
    return "".join(tiles)


def _tile(value: str, name: str, *, css: str = "") -> str:
    return f'<div class="tile {escape(css)}"><b>{escape(value)}</b>{escape(name)}</div>'


def _mistakes_note(evaluation: "Evaluation", held_out: HeldOut) -> str:
    num_shown = len(held_out.mistakes)
    if evaluation.by_decile:
        return f"The {num_shown} predictions farthest from the actual value."
    num_wrong = held_out.num_mistakes
    if num_wrong == 0:
        return "No mistakes."
    shown = (
        f"the {num_shown} most confident are shown" if num_shown < num_wrong else "all are shown"
    )
    return f"{num_wrong:,} in total; {shown}, in order of confidence."


def _figure(held_out: HeldOut, index: int) -> str:
    truth = shown_value(held_out.true_label(index))
    about = escape(f"test example {index}, label {truth}", quote=True)
    image = image_uri(held_out.rows[index])
    picture = (
        f'<img src="{image}" alt="{about}" title="{about}">'
        if image
        else _fields(held_out.instance(index))
    )
    predicted = shown_value(held_out.predicted_label(index))
    confidence = held_out.confidence(index)
    caption = (
        f"<b>{escape(truth)}</b> predicted as <b>{escape(predicted)}"
        f"</b>{'' if confidence is None else f' ({confidence:.1%})'}"
    )
    css = "" if image else ' class="fields"'
    return f"<figure{css}>{picture}<figcaption>{caption}</figcaption></figure>"


def _fields(instance: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(shown_value(value))}</td></tr>'
        for name, value in instance.items()
    )
    return f"<table>{rows}</table>"
