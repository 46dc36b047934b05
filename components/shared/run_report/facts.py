"""Facts of a run as metadata of its artifact `summary`, by which lists show a run's result.

`vertex_local/README.md`, "What the console reads", documents the names; Vertex AI shows them beside
the artifact.
"""

import math

from components.shared.run_report.content import Content
from components.shared.run_report.page import REPORT_FILE
from components.shared.run_summary.summary import Summary
from components.shared.vertex.labels import WAITING
from trainer import Json
from trainer.metrics.directions import HIGHER_IS_BETTER, LOWER_IS_BETTER


def facts_of(content: Content) -> Json:
    """Return texts and numbers by name, without those that are unknown."""
    summary, gain = content.summary, content.evaluation.get("gain") or {}
    metrics = {**(content.evaluation.get("metrics") or {}), **summary.judged}
    checked = [check["name"] for check in content.evaluation.get("checks", [])]
    metric = gain.get("metric") or next((n for n in checked if n in metrics), "")
    model, champion = summary.model_version.partition("@")[0], content.evaluation.get("champion")
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
        "gain_over": _name_of(champion, summary) if champion else None,
        "cost": round(content.cost.dollars, 4) if content.cost else None,
        "model": summary.model_version,
        "report": REPORT_FILE,  # beside summary.json
        "lower_is_better": " ".join(sorted(LOWER_IS_BETTER & metrics.keys())),
        "higher_is_better": " ".join(sorted(HIGHER_IS_BETTER & metrics.keys())),
        "commands": "\n".join(_commands(model)) if model else "",
        **_ends(content.evaluation.get("intervals") or {}),
    }
    return {name: value for name, value in facts.items() if _is_known(value)}


def _name_of(champion: Json, summary: Summary) -> str:
    """Return the champion's version as `mnist@1`, as a run's own is called."""
    number = str(champion["version"]).rpartition("@")[2]
    return f"{summary.settings.get('model_name', '')}@{number}"


def _ends(intervals: Json) -> Json:
    return {
        f"{name}_{end}": value
        for name, ends in intervals.items()
        for end, value in zip(("low", "high"), ends, strict=True)
    }


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
