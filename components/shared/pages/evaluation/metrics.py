"""Section on the metrics of the test split."""

from html import escape

from components.shared.pages.html import measured, number, section, signed, table
from trainer import Json

AT_THRESHOLD = (
    "Precision, recall, f1 and cost by folds are at the served model's threshold. If that was"
    " learnt on the eval split, whose rows are in the folds, they are a little optimistic."
)


def metrics_section(evaluation: Json, metrics: Json) -> str:
    """Return the metrics beside the folds', the champion's and the baseline's.

    `metrics` is shown if the evaluation has none.
    """
    metrics = evaluation.get("metrics") or metrics
    champion = evaluation.get("champion") or {}
    baseline = evaluation.get("baseline") or {}
    checks = [check for check in evaluation.get("checks", []) if check["name"] in metrics]
    limits = {check["name"]: check["limit"] for check in checks if check["limit"] is not None}
    folds = evaluation.get("folds") or {}
    compared = [
        (title, model.get("metrics", {}))
        for title, model in (
            (fold_words(folds), folds),
            (f"champion {_version(champion)}", champion),
            (f"baseline {baseline.get('name', '')}", baseline),
        )
        if model
    ]
    rows = [
        (
            escape(name),
            f"<b>{measured(value)}</b>",
            *(number(values.get(name)) for _, values in compared),
            *([number(limits[name]) if name in limits else ""] if limits else []),
        )
        for name, value in metrics.items()
    ]
    if not rows:
        return ""
    titles = [title.strip() for title, _ in compared]
    head = ("metric", "this model", *titles, *["limit"] * bool(limits))
    body = table(head, rows, css="numbers")
    title = "Metrics of the test split" + " and by folds, which judge the model" * bool(folds)
    note = AT_THRESHOLD * bool(folds and "precision" in folds["metrics"])
    return section(title, body, _gain(evaluation), _own_constant(evaluation), note=note)


def fold_words(folds: Json) -> str:
    """Return `by 5 folds (150 rows)`, "" without folds."""
    return f"by {folds['count']} folds ({folds['rows']:,} rows)" if folds else ""


def _gain(evaluation: Json) -> str:
    gain = evaluation.get("gain")
    if not gain:
        return ""
    if gain["difference"] is None:
        return f"<p>Gain in {escape(gain['metric'])}: <b>not defined</b>.</p>"
    return (
        f"<p>Gain in {escape(gain['metric'])}: <b>{signed(gain['difference'])}</b>,"
        f" {escape(gain['words'])}, on the same examples{escape(gain.get('basis', ''))}.</p>"
    )


def _own_constant(evaluation: Json) -> str:
    value, gain = evaluation.get("own_constant"), evaluation.get("gain")
    if value is None or not gain:
        return ""
    return (
        f"<p>For information: the best constant for these very examples, which nobody knows before,"
        f" has {escape(gain['metric'])} {number(value)}; the gate's is that of the train split.</p>"
    )


def _version(champion: dict[str, object]) -> str:
    """Return `@3` of the resource name of a version."""
    return f"@{str(champion.get('version', '')).rpartition('@')[2]}" if champion else ""
