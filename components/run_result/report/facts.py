"""Facts of a run as metadata of its artifact `summary`, by which lists show a run's result.

`vertex_local/README.md`, "What the console reads", documents the names; Vertex AI shows them beside
the artifact.
"""

import math

from components.run_result.report.content import Content
from components.run_result.report.page import REPORT_FILE
from components.run_result.report.sections.verdict import advice_of, tone_of
from components.run_result.summary import GATE_FAILED, USER_ERROR_PREFIX
from trainer import Json

NUM_NEXT = 2


def facts_of(content: Content) -> Json:
    """Return texts and numbers by name, without those that are unknown.

    A gain over a constant or another simple model is no gain over a version: it has other names.
    """
    summary, gain = content.summary, content.evaluation.get("gain") or {}
    metrics = {**(content.evaluation.get("metrics") or {}), **summary.judged}
    checked = [check["name"] for check in content.evaluation.get("checks", [])]
    over = "gain" if content.evaluation.get("champion") else "baseline_gain"
    metric = gain.get("metric") or next((n for n in checked if n in metrics), "")
    model = summary.model_version.partition("@")[0]
    reasons = (summary.promoted_before, summary.stop, *summary.reasons, *summary.news)
    facts = {
        "outcome": summary.outcome,
        "tone": tone_of(summary),
        "workload": summary.workload,
        "reasons": "\n".join(filter(None, reasons)),
        "metric": metric,
        "value": metrics.get(metric),
        over: gain.get("difference"),
        f"{over}_low": gain.get("low"),
        f"{over}_high": gain.get("high"),
        "baseline": (content.evaluation.get("baseline") or {}).get("name"),
        "why": _why(content),
        "task": "evaluate" if summary.outcome == GATE_FAILED else "",
        "next": "\n".join(command for _, command in advice_of(content)[:NUM_NEXT]),
        "cost": round(content.cost.expected or 0, 4) if content.cost else None,
        "model": summary.model_version,
        "report": REPORT_FILE,  # beside summary.json
        "commands": "\n".join(_commands(model)) if model else "",
    }
    return {name: value for name, value in facts.items() if _is_known(value)}


def _is_known(value: str | float | None) -> bool:
    return math.isfinite(value) if isinstance(value, float) else value not in (None, "")


def _why(content: Content) -> str:
    """Return in one line why the run did not promote its model, "" if it did."""
    summary = content.summary
    if summary.outcome == GATE_FAILED:
        checks = content.evaluation.get("checks", [])
        missed = [check["text"] for check in checks if not check["ok"]]
        return "; ".join(missed or summary.reasons)
    error = summary.error.rstrip().rpartition("\n")[2].removeprefix(USER_ERROR_PREFIX)
    return error or summary.stop


def _commands(model: str) -> list[str]:
    return [
        f"trainyard models hold {model} --reason TEXT",
        f"trainyard models release {model} --reason TEXT",
        f"trainyard models approve {model}@VERSION --reason TEXT",
        f"trainyard models rollback {model} --reason TEXT",
    ]
