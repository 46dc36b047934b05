"""First section: the result in words, its reasons, and the run in a few numbers."""

from html import escape

from components.run_report.content import Content
from components.run_report.html import number, section, signed
from components.run_summary.summary import (
    CANCELLED,
    FAILED,
    GATE_FAILED,
    INTERRUPTED,
    PROMOTED,
    SAME_MODEL,
    SUCCEEDED,
    Summary,
)

MAX_METRICS = 4
LEAST_DOLLARS = 0.01
WORDS = {
    PROMOTED: "Promoted: {version} is the default version",
    SAME_MODEL: "Same model: {version} stays the default version",
    SUCCEEDED: "Succeeded",
    GATE_FAILED: "Not promoted: the model did not pass",
    FAILED: "Failed",
    CANCELLED: "Cancelled",
    INTERRUPTED: "Interrupted",
}


def verdict_section(content: Content) -> str:
    """Return the result with a mark for each condition, errors and warnings, and tiles."""
    summary = content.summary
    css = "good" if summary.is_good else "bad"
    words = WORDS.get(summary.outcome, summary.outcome).format(version=summary.model_version)
    error = f'<pre class="error">{escape(summary.error)}</pre>' if summary.error else ""
    warnings = "".join(f'<p class="warning">{escape(text)}</p>' for text in summary.warnings)
    return (
        f'<p class="verdict {css}">{escape(words)}</p>{_reasons(content)}{error}{warnings}'
        f'<div class="tiles">{_tiles(content)}</div>'
    )


def metrics_section(content: Content) -> str:
    """Return the metrics beside those of the champion and of the baseline."""
    metrics = content.evaluation.get("metrics") or content.summary.metrics
    champion = content.evaluation.get("champion") or {}
    baseline = content.evaluation.get("baseline") or {}
    limits = {c["name"]: c["limit"] for c in content.evaluation.get("checks", [])}
    others = [
        (title, found.get("metrics", {}))
        for title, found in (
            (f"champion {_version(champion)}", champion),
            (f"baseline {baseline.get('name', '')}", baseline),
        )
        if found
    ]
    head = "".join(f'<th scope="col">{escape(title.strip())}</th>' for title, _ in others)
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td><b>{number(value)}</b></td>'
        + "".join(f"<td>{number(values.get(name))}</td>" for _, values in others)
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
    return section("Metrics of the test split", body, _gain(content))


def _reasons(content: Content) -> str:
    checks = content.evaluation.get("checks", [])
    marks = [(check["ok"], str(check["text"])) for check in checks] or [
        (content.summary.verdict == "passed", reason) for reason in content.summary.reasons
    ]
    found = "".join(
        f'<li class="{"good" if is_ok else "bad"}"><b>{"✓" if is_ok else "✗"}</b> '
        f"<span>{escape(text)}</span></li>"
        for is_ok, text in sorted(marks, key=lambda mark: mark[0])
    )
    return f'<ul class="checks">{found}</ul>' if found else ""


def _tiles(content: Content) -> str:
    summary = content.summary
    metrics = content.evaluation.get("metrics") or summary.metrics
    before = (content.evaluation.get("champion") or {}).get("metrics", {})
    tiles = [
        (number(value), name, _change(value, before.get(name)))
        for name, value in metrics.items()
        if not name.startswith("num_")
    ][:MAX_METRICS]
    if num_examples := content.evaluation.get("num_examples") or metrics.get("num_examples"):
        tiles.append((f"{int(num_examples):,}", "test examples", ""))
    tiles.append((_duration(summary), "whole run", _cached(summary)))
    if content.cost:
        dollars = content.cost.dollars
        text = f"${dollars:,.2f}" if dollars >= LEAST_DOLLARS else f"< ${LEAST_DOLLARS}"
        tiles.append((escape(text), "training on Vertex AI", "estimate"))
    return "".join(
        f'<div class="tile"><b>{value}</b>{escape(name)}<small>{escape(note)}</small></div>'
        for value, name, note in tiles
    )


def _change(value: float, before: float | None) -> str:
    if before is None or value is None:
        return ""
    return f"{signed(value - before)} to champion"


def _duration(summary: Summary) -> str:
    minutes, seconds = divmod(round(summary.seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{summary.seconds:.1f} s"


def _cached(summary: Summary) -> str:
    num_cached = sum(task["cached"] for task in summary.tasks)
    tasks = "task" if num_cached == 1 else "tasks"
    return f"{num_cached} {tasks} from the cache" if num_cached else ""


def _gain(content: Content) -> str:
    gain = content.evaluation.get("gain")
    if not gain:
        return ""
    return (
        f"<p>Gain in {escape(gain['metric'])}: <b>{signed(gain['difference'])}</b>, "
        f"{(gain.get('confidence') or 0) * 100:.4g} % interval {signed(gain['low'])} to"
        f" {signed(gain['high'])}, on the same examples.</p>"
    )


def _version(champion: dict[str, object]) -> str:
    """Return `@3` of the resource name of a version."""
    return f"@{str(champion.get('version', '')).rpartition('@')[2]}" if champion else ""
