"""Section on the metrics of the test split."""

from html import escape

from components.shared.pages.html import measured, number, section, signed
from trainer import Json


def metrics_section(evaluation: Json, metrics: Json) -> str:
    """Return the metrics beside the champion's and the baseline's.

    `metrics` is shown if the evaluation has none.
    """
    metrics = evaluation.get("metrics") or metrics
    champion = evaluation.get("champion") or {}
    baseline = evaluation.get("baseline") or {}
    limits = {c["name"]: c["limit"] for c in evaluation.get("checks", [])}
    compared = [
        (title, model.get("metrics", {}))
        for title, model in (
            (f"champion {_version(champion)}", champion),
            (f"baseline {baseline.get('name', '')}", baseline),
        )
        if model
    ]
    head = "".join(f'<th scope="col">{escape(title.strip())}</th>' for title, _ in compared)
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td><b>{measured(value)}</b></td>'
        + "".join(f"<td>{number(values.get(name))}</td>" for _, values in compared)
        + f"<td>{number(limits[name]) if limits.get(name) is not None else ''}</td></tr>"
        for name, value in metrics.items()
    )
    if not rows:
        return ""
    body = (
        f'<div class="wide"><table class="numbers"><thead><tr><th scope="col">metric</th>'
        f'<th scope="col">this model</th>{head}<th scope="col">limit</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    return section("Metrics of the test split", body, _gain(evaluation))


def _gain(evaluation: Json) -> str:
    gain = evaluation.get("gain")
    if not gain:
        return ""
    if gain["difference"] is None:
        return f"<p>Gain in {escape(gain['metric'])}: <b>not defined</b>.</p>"
    return (
        f"<p>Gain in {escape(gain['metric'])}: <b>{signed(gain['difference'])}</b>, "
        f"{(gain.get('confidence') or 0) * 100:.4g} % interval {signed(gain['low'])} to"
        f" {signed(gain['high'])}, on the same examples.</p>"
    )


def _version(champion: dict[str, object]) -> str:
    """Return `@3` of the resource name of a version."""
    return f"@{str(champion.get('version', '')).rpartition('@')[2]}" if champion else ""
