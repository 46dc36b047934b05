"""Last sections: what to do next, and the settings."""

import shlex

from components.model_version.decisions import STOPS
from components.run_result.report.content import Content
from components.run_result.summary import EXIT_TASK, GATE_FAILED, Summary
from components.shared.text.value_text import moment_text
from components.shared.vertex.labels import WAITING

DIGEST_DIGITS = 16


def facts_of_run(summary: Summary) -> dict[str, str]:
    """Return the digests and times of a run by name; some are empty."""
    return {
        "schedule": summary.schedule,
        "created": moment_text(summary.created),
        "ended": moment_text(summary.ended),
        "data": summary.data_digest.removeprefix("sha256:")[:DIGEST_DIGITS],
        "code": summary.code_digest,
        "project": summary.project_digest,
    }


def advice_of(content: Content) -> list[tuple[str, str]]:
    """Return what to do next, each with a command."""
    summary = content.summary
    run, model = summary.run, summary.settings.get("model_name", summary.workload)
    compare = ("Compare it with another run:", f"trainyard runs diff OTHER_RUN {run}")
    if summary.outcome == GATE_FAILED:
        return [*_gate_advice(content), compare]
    if not summary.is_good:
        return _failure_advice(summary)
    if summary.outcome == WAITING and summary.model_version:
        version = summary.model_version
        return [
            ("Promote the version:", f"trainyard models approve {version}"),
            ("Or reject it:", f"trainyard models reject {version} --reason TEXT"),
            compare,
        ]
    if summary.outcome in STOPS:
        return [("See who decided what, and why:", f"trainyard models history {model}"), compare]
    if not summary.model_version:
        return [("See the facts of the run:", f"trainyard runs show {run}")]
    rollback = [("Return to the previous version:", f"trainyard models rollback {model}")]
    if not content.evaluation.get("champion"):
        rollback = []
    return [
        (
            "See the version, with its labels and the reasons:",
            f"trainyard models show {summary.model_version}",
        ),
        (
            "Serve the model, and request predictions:",
            f"trainyard endpoints deploy {summary.model_version}",
        ),
        *rollback,
        compare,
    ]


def _gate_advice(content: Content) -> list[tuple[str, str]]:
    run = content.summary.run
    failed = [c["name"] for c in content.evaluation.get("checks", []) if not c["ok"]]
    slices = [name for name in failed if name.startswith("slice ")]
    advice = [("See the facts of the run:", f"trainyard runs show {run}")]
    if slices:
        text = f"Look at the examples of {', '.join(slices)}: more of them, or a feature, may help."
        advice.append((text, f"trainyard runs logs {run} --task evaluate"))
    workload = shlex.quote(content.summary.workload)
    advice.append(("Train longer:", f"trainyard run {workload} --set train.epochs=N"))
    return advice


def _failure_advice(summary: Summary) -> list[tuple[str, str]]:
    task = f" --task {summary.failed_task}" if summary.failed_task else ""
    repeat = (
        "Continue the run, with the finished steps from the cache:",
        f"trainyard runs resume {summary.run} --wait",
    )
    if summary.failed_task == EXIT_TASK:
        repeat = ("Remove what the run left:", f"trainyard teardown {summary.run}")
    return [("Read the log:", f"trainyard runs logs {summary.run}{task}"), repeat]
