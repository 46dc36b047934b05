"""Execution of a planned run: create it, wait for its end, print the result."""

import argparse
import contextlib
import json
import sys
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console

from components.model_version.decisions import STOPS
from components.run_result.summary import NO_NEWS, Summary
from components.shared.vertex.labels import STARTER_LABEL, label_value
from components.shared.vertex.resource_name import console_page, to_open
from pipelines.command.actions import confirmed
from pipelines.command.output import keep_running_without_output
from pipelines.exit_codes import GATED, INTERRUPTED, OK
from pipelines.places.target import Target
from pipelines.resources.names import this_person
from pipelines.runs.execute import RunResult, show_to_end, torn_down, write_result
from pipelines.runs.facts import exit_code_of
from pipelines.runs.output.ending import NUM_DRIFT_SHOWN, print_result
from pipelines.runs.output.hints import after_failure, command, log_command, stop_command
from pipelines.runs.request import create_run
from pipelines.runs.submit import Submission

if TYPE_CHECKING:
    from pipelines.places.local_service import LocalService


def start_run(
    arguments: argparse.Namespace,
    submission: Submission,
    *,
    target: Target,
    service: "LocalService | None",
) -> int:
    """Create a run; with `wait` show it to its end, with `tears_down` then tear it down.

    Return the exit code.
    """
    api, run, config = target.connect(), submission.run, submission.config
    page = to_open(console_page(f"{api.parent}/pipelineJobs/{run}"))
    console = Console()
    is_created = False

    def create() -> None:
        nonlocal is_created
        labels = {**submission.request["labels"], STARTER_LABEL: label_value(this_person())}
        create_run(api, {**submission.request, "labels": labels}, run=run)
        is_created = True
        if not arguments.tears_down:  # `run` has printed its title
            print(run, flush=True)
        print(f"page: {page}", flush=True)

    def wants_cancel() -> bool:
        if not arguments.tears_down:
            # The service may have created the run although we have not read its response.
            state = "continues" if is_created else "may have been created"
            return confirm_cancel(run, state=state, target=target, service=service)
        console.print("[yellow]interrupted: cancelling the run and tearing down[/]")
        return True

    if not arguments.wait:
        create()
        arguments.result = {"run": run, "page": page}, run
        if service:
            service.keep()
            print(f"{log_command(run, '', target)} --follow   # show its log")
            print(f"{stop_command(target)}   # stop the service and its runs")
        return OK
    keep_running_without_output()
    show = partial(show_to_end, console=console, create=create, wants_cancel=wants_cancel)
    if config and arguments.tears_down:
        keep = config.keep_endpoint
        with torn_down(api, submission, target=target, keep_endpoint=keep):
            result = show(api, submission)
        write_result(api, result, target=target)
        is_kept = keep and result.is_promoted
        if service and is_kept:
            service.keep()
        print_result(
            result.summary,
            outputs=result.view.outputs,
            config=config,
            target=target,
            is_kept=is_kept,
            console=console,
        )
    else:
        result = show(api, submission)
        print_outcome(result.summary, target=target)
    arguments.result = json.loads(result.summary.to_json()), result.summary.headline
    return _exit_code(result, is_deployment=arguments.tears_down)


def print_outcome(summary: Summary, *, target: Target) -> None:
    """Print the result of a run that is not torn down; errors and hints go to stderr."""
    print(f"run {summary.run} is {summary.state}")
    is_done = summary.state == "SUCCEEDED"
    print(summary.headline, file=sys.stdout if is_done else sys.stderr)
    for feature in summary.drift[:NUM_DRIFT_SHOWN]:
        print(f"drift: {feature}")
    if summary.data_report:
        print(f"data report: {summary.data_report}")
    if not is_done:
        print(f"try: {after_failure(summary, target)[0]}", file=sys.stderr)


def _exit_code(result: RunResult, *, is_deployment: bool) -> int:
    """Return the exit code of an awaited run; one of ours must have a promoted model."""
    if result.is_interrupted and is_deployment:
        return INTERRUPTED
    code = exit_code_of(result.summary)
    is_expected = result.summary.outcome in (NO_NEWS, *STOPS) or result.is_promoted
    return GATED if code == OK and is_deployment and not is_expected else code


def confirm_cancel(run: str, *, state: str, target: Target, service: "LocalService | None") -> bool:
    """Ask at a terminal whether to cancel an interrupted run; otherwise leave it running."""
    with contextlib.suppress(KeyboardInterrupt):
        if confirmed(f"\nCancel run {run}?"):
            return True
    if service:
        service.keep()
    cancel = command(f"trainyard runs cancel {run}", target)
    print(f"run {run} {state}; {cancel} cancels it", file=sys.stderr)
    return False
