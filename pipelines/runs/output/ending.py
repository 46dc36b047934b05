"""Output at a run's end: the result, where its files are, and commands to try next."""

import shlex
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from components.model_version.decisions import STOPS
from components.run_result.report.page import DATA_FILE, REPORT_FILE
from components.run_result.summary import GATE_FAILED, NO_NEWS, PROMOTED, Summary
from components.shared.vertex.labels import WAITING
from pipelines.config.run_config import RunConfig
from pipelines.places.target import Target
from pipelines.runs.output.hints import after_failure, command, decisions_after, stop_command
from pipelines.runs.output.tables import limits_of, metric_lines
from trainer import Json

NUM_DRIFT_SHOWN = 3
NEXT_FACT_LINE = "\n" + " " * 18


def print_result(
    summary: Summary,
    *,
    outputs: Json,
    config: RunConfig,
    target: Target,
    is_kept: bool,
    console: Console,
) -> None:
    """Print a result in full: predictions, metrics, files, and commands to try next."""
    trained = outputs.get("plan-training.base_output_directory", "")
    logs = f"{trained}/logs" if trained else ""
    folder = target.run_dir(summary.run)
    facts = {
        "whole run": f"{summary.state.lower()}, {summary.seconds:.1f} s",
        **metric_lines(summary, dict.fromkeys(limit.metric for limit in limits_of(summary))),
        "verdict": ": ".join(filter(None, [summary.verdict, "; ".join(summary.reasons)])),
        "new data": "; ".join(summary.news),
        "promoted": summary.promoted_before,
        "not promoted": summary.stop if summary.outcome in STOPS else "",
        "model version": _version(summary),
        "report": str(folder / REPORT_FILE),
        "data": NEXT_FACT_LINE.join(summary.data_notes),
        "drift": _drift(summary),
        "data report": str(folder / DATA_FILE) if summary.data_report else "",
        "TensorBoard logs": logs,
        "run folder": str(folder),
    }
    console.print()
    for line in _prediction_lines(outputs.get("release-model.table.uri", "")):
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    for label, fact in facts.items():
        if fact:
            console.print(f"{label:<16}  {escape(fact)}", soft_wrap=True, highlight=False)
    for warning in summary.warnings:
        console.print(f"\n[yellow]warning: {escape(warning)}[/]", soft_wrap=True, highlight=False)
    if summary.error:
        console.print(f"\n[red]{escape(summary.error)}[/]", soft_wrap=True, highlight=False)
    golden = outputs.get("evaluate.golden.uri", "")
    commands = next_commands(
        summary, config=config, target=target, logs=logs, instances=golden, is_kept=is_kept
    )
    console.print("\n[bold]Try next[/]")
    for line in commands:
        console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)


def next_commands(
    summary: Summary,
    *,
    config: RunConfig,
    target: Target,
    logs: str,
    instances: str,
    is_kept: bool = False,
) -> list[str]:
    """Return commands to try after a run; `instances` is a file for its endpoint."""
    if summary.state != "SUCCEEDED":
        return after_failure(summary, target)
    if summary.outcome == NO_NEWS:
        return [command(f"trainyard runs show {summary.run}", target)]
    if summary.outcome in STOPS:
        return [command(line, target) for line in decisions_after(summary)]
    tensorboard = command(f"tensorboard --logdir {logs}", target)
    if summary.outcome == GATE_FAILED:
        return [command(f"trainyard runs show {summary.run}", target), tensorboard]
    endpoint = shlex.quote(config.endpoint_name)
    version = shlex.quote(summary.model_version)
    deploy = f"trainyard endpoints deploy {version} --endpoint {endpoint}"
    predict = f"trainyard endpoints predict {endpoint} --instances {shlex.quote(instances)}"
    commands = ["trainyard models list" if is_kept else deploy, predict]
    lines = [*(command(text, target) for text in commands), tensorboard]
    return [*lines, stop_command(target)] if is_kept else lines


def _prediction_lines(uri: str) -> list[str]:
    """Return the table of predictions and an empty line, if the file is on this machine."""
    path = Path(uri)
    if not uri or not path.is_file():
        return []
    return [*path.read_text().strip().strip("`").strip("\n").splitlines(), ""]


def _drift(summary: Summary) -> str:
    num_others = len(summary.drift) - NUM_DRIFT_SHOWN
    more = [f"{num_others} more in the data report"] if num_others > 0 else []
    return NEXT_FACT_LINE.join([*summary.drift[:NUM_DRIFT_SHOWN], *more])


def _version(summary: Summary) -> str:
    if not summary.model_version or summary.is_new_version:
        return summary.model_version
    if summary.outcome == WAITING:
        return f"{summary.model_version}, which waits for a decision"
    state = "the default again" if summary.outcome == PROMOTED else "unchanged"
    return f"{summary.model_version}, {state}: the model is the same, so no version is registered"
