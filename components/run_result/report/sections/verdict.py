"""The result in words and in a few numbers, its facts, and what to do next."""

import shlex

from components.model_version.decisions import HELD, NOT_PROMOTED, STOPS
from components.run_result.report.content import Content
from components.run_result.summary import (
    CANCELLED,
    EXIT_TASK,
    FAILED,
    GATE_FAILED,
    INTERRUPTED,
    PROMOTED,
    SAME_MODEL,
    SUCCEEDED,
    Summary,
)
from components.shared.pages.charts.axis import tick_text
from components.shared.pages.evaluation.sections import fold_words
from components.shared.pages.formats import measured, number, signed
from components.shared.text.value_text import moment_text
from components.shared.vertex.labels import REJECTED, WAITING
from trainer.metrics.directions import HIGHER_IS_BETTER, LOWER_IS_BETTER

MAX_METRICS = 4
LEAST_DOLLARS, LEAST_LARGE = 0.01, 1e6
WORDS = {
    PROMOTED: "Promoted: {version} is the default version",
    SAME_MODEL: "Same model: {version} stays the default version",
    SUCCEEDED: "Succeeded",
    GATE_FAILED: "Not promoted: the model did not pass",
    FAILED: "Failed",
    HELD: "Not promoted: the model is held",
    REJECTED: "Not promoted: the same model was rejected",
    WAITING: "Waiting for an approval: {version}",
    NOT_PROMOTED: "Passed, and not promoted, as it was asked",
    CANCELLED: "Cancelled",
    INTERRUPTED: "Interrupted",
}
TONES = {WAITING: "wait", HELD: "stop", REJECTED: "stop", NOT_PROMOTED: "off", CANCELLED: "off"}


def outcome_words(summary: Summary) -> str:
    """Return the result of a run as a sentence."""
    return WORDS.get(summary.outcome, summary.outcome).format(version=summary.model_version)


def tone_of(summary: Summary) -> str:
    """Return the tone of a result: good, bad, wait, stop (by a person) or off (as was asked)."""
    return TONES.get(summary.outcome) or ("good" if summary.is_good else "bad")


def tiles_of(content: Content) -> list[tuple[str, str, str]]:
    """Return values with their names and notes: metrics, examples, time and cost."""
    summary = content.summary
    folds = content.evaluation.get("folds") or {}
    metrics = folds.get("metrics") or content.evaluation.get("metrics") or summary.metrics
    before = {} if folds else (content.evaluation.get("champion") or {}).get("metrics", {})
    shown = [
        (_short(value), name, fold_words(folds) or _change(name, value, before.get(name)))
        for name, value in metrics.items()
        if not name.startswith("num_")
    ][:MAX_METRICS]
    if num_examples := content.evaluation.get("num_examples") or metrics.get("num_examples"):
        shown.append((f"{int(num_examples):,}", "test examples", ""))
    shown.append((_duration(summary), "whole run", _cached(summary)))
    if content.cost:
        dollars = content.cost.expected or 0
        text = f"${dollars:,.2f}" if dollars >= LEAST_DOLLARS else f"< ${LEAST_DOLLARS}"
        shown.append((text, "training on Vertex AI", "estimate"))
    return shown


def _short(value: float | None) -> str:
    """Return a metric that fits into a tile: `4.441B` for 4,440,945,863."""
    is_large = value is not None and abs(value) >= LEAST_LARGE
    return tick_text(float(f"{value:.4g}")) if is_large else measured(value)


def _change(name: str, value: float, before: float | None) -> str:
    """Return the difference to the champion's metric, in words if more or less is better."""
    if before is None or value is None:
        return ""
    is_less = name in LOWER_IS_BETTER
    if value == before or not (is_less or name in HIGHER_IS_BETTER):
        return f"{signed(value - before)} to champion"
    word = "better" if (value < before) is is_less else "worse"
    return f"{number(abs(value - before))} {word} than the champion"


def _duration(summary: Summary) -> str:
    minutes, seconds = divmod(round(summary.seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{summary.seconds:.1f} s"


def _cached(summary: Summary) -> str:
    num_cached = sum(task["cached"] for task in summary.tasks)
    tasks = "task" if num_cached == 1 else "tasks"
    return f"{num_cached} {tasks} from the cache" if num_cached else ""


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
