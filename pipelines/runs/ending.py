"""What a run says at its end: the summary, where to look, and what to try next."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from components.run_summary.report import REPORT_FILE
from components.run_summary.summary import GATE_FAILED, Summary
from pipelines.config import RunConfig
from pipelines.runs.execute import RunResult
from pipelines.runs.hints import after_failure, command, stop_command
from pipelines.runs.task_table import MOST_DRIFT, task_table
from pipelines.target.places import Target

NEXT_FACT_LINE = "\n" + " " * 18


def print_result(
    result: RunResult, *, config: RunConfig, target: Target, is_kept: bool, console: Console
) -> None:
    """Prints the summary: tasks, metrics, where to look, and what to try next."""
    summary, outputs = result.summary, result.view.outputs
    evaluated = outputs.get("evaluate", {})
    reasons = evaluated.get("reasons", "").splitlines()
    logs = _below(outputs.get("plan-training", {}).get("base_output_directory"), "logs")
    facts = {
        **_metrics(summary, config),
        "verdict": ": ".join(filter(None, [summary.verdict, "; ".join(reasons)])),
        "model version": _version(summary),
        "report": evaluated.get("report", {}).get("uri", ""),
        "CPU and memory": str(target.run_dir(summary.run) / REPORT_FILE),
        "data": NEXT_FACT_LINE.join(summary.data_notes),
        "drift": _drift(summary),
        "data report": summary.data_report,
        "TensorBoard logs": logs,
        "run folder": str(target.run_dir(summary.run)),
    }
    console.print("", task_table(summary), "", sep="\n")
    for line in _predictions(outputs.get("predict", {}).get("table", {}).get("uri", "")):
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    for label, fact in facts.items():
        if fact:
            console.print(f"{label:<16}  {escape(fact)}", soft_wrap=True, highlight=False)
    for warning in summary.warnings:
        console.print(f"\n[yellow]warning: {escape(warning)}[/]", soft_wrap=True, highlight=False)
    if summary.error:
        console.print(f"\n[red]{escape(summary.error)}[/]", soft_wrap=True, highlight=False)
    instances = str(evaluated.get("golden", {}).get("uri", "")) if is_kept else ""
    commands = next_commands(summary, config=config, target=target, logs=logs, instances=instances)
    console.print("\n[bold]Try next[/]")
    for line in commands:
        console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)


def next_commands(
    summary: Summary, *, config: RunConfig, target: Target, logs: str, instances: str = ""
) -> list[str]:
    """Three commands worth trying after a run; `instances` is the file to ask an endpoint with."""
    if summary.state != "SUCCEEDED":
        return after_failure(summary, target)
    ask = f"trainyard run {config.workload} --keep-endpoint"
    if instances:
        ask = f"trainyard endpoints predict {config.endpoint_name} --instances {instances}"
    stop = [stop_command(target)] if instances else []
    look = f"trainyard runs show {summary.run}" if summary.outcome == GATE_FAILED else ""
    return [
        command(look or "trainyard models list", target),
        command(ask, target),
        command(f"tensorboard --logdir {logs}", target),
        *stop,
    ]


def _predictions(uri: str) -> list[str]:
    """The table of predictions, if it is on this machine, and an empty line."""
    path = Path(uri)
    if not uri or not path.is_file():
        return []
    return [*path.read_text().strip().strip("`").strip("\n").splitlines(), ""]


def _metrics(summary: Summary, config: RunConfig) -> dict[str, str]:
    """Every metric that gates the run, with what was asked."""
    return {
        f"test {name}": f"{summary.metrics[name]:.4f} (at least {least:g} asked)"
        for name, least in config.thresholds.items()
        if name in summary.metrics
    }


def _drift(summary: Summary) -> str:
    """Return the features that have moved most, and where the others are."""
    more = len(summary.drift) - MOST_DRIFT
    rest = [f"{more} more in the data report"] if more > 0 else []
    return NEXT_FACT_LINE.join([*summary.drift[:MOST_DRIFT], *rest])


def _version(summary: Summary) -> str:
    if not summary.model_version or summary.is_new_version:
        return summary.model_version
    return f"{summary.model_version}, as before: the model is the same, so no version is registered"


def _below(folder: object, name: str) -> str:
    return f"{folder}/{name}" if folder else ""
