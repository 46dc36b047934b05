"""Facts of a run as metadata of its artifact `summary`, by which lists show a run's result.

`vertex_local/README.md`, "What the console reads", documents the names; Vertex AI shows them beside
the artifact.
"""

import math

from components.run_result.report.content import Content
from components.run_result.report.page import REPORT_FILE
from components.shared.vertex.labels import WAITING
from trainer import Json


def facts_of(content: Content) -> Json:
    """Return texts and numbers by name, without those that are unknown."""
    summary, gain = content.summary, content.evaluation.get("gain") or {}
    metrics = {**(content.evaluation.get("metrics") or {}), **summary.judged}
    checked = [check["name"] for check in content.evaluation.get("checks", [])]
    metric = gain.get("metric") or next((n for n in checked if n in metrics), "")
    model = summary.model_version.partition("@")[0]
    reasons = (summary.promoted_before, summary.stop, *summary.reasons, *summary.news)
    facts = {
        "outcome": summary.outcome,
        "tone": _tone(content),
        "workload": summary.workload,
        "reasons": "\n".join(filter(None, reasons)),
        "metric": metric,
        "value": metrics.get(metric),
        "gain": gain.get("difference"),
        "gain_low": gain.get("low"),
        "gain_high": gain.get("high"),
        "cost": round(content.cost.expected or 0, 4) if content.cost else None,
        "model": summary.model_version,
        "report": REPORT_FILE,  # beside summary.json
        "commands": "\n".join(_commands(model)) if model else "",
    }
    return {name: value for name, value in facts.items() if _is_known(value)}


def _is_known(value: str | float | None) -> bool:
    return math.isfinite(value) if isinstance(value, float) else value not in (None, "")


def _tone(content: Content) -> str:
    if content.summary.outcome == WAITING:
        return "wait"
    return "good" if content.summary.is_good else "bad"


def _commands(model: str) -> list[str]:
    return [
        f"trainyard models hold {model} --reason TEXT",
        f"trainyard models release {model} --reason TEXT",
        f"trainyard models approve {model}@VERSION --reason TEXT",
        f"trainyard models rollback {model} --reason TEXT",
    ]
