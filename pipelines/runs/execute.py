"""One run, start to end: compile, submit, follow, tear down, summarise."""

import contextlib
import dataclasses
import datetime
import logging
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from rich.console import Console

from components.labels import RUN_LABEL
from components.run_summary.report import write_report
from components.run_summary.summary import Summary, summarize
from components.vertex.api import VertexApi, VertexError, connect
from components.vertex.job_warnings import replicas_of_jobs
from pipelines.config import RunConfig
from pipelines.runs.display import display_for
from pipelines.runs.request import create_run
from pipelines.runs.submit import RunOptions, package_of, plan_run
from pipelines.runs.view import RunView, TrainingLog, follow, leaf_tasks, view_of, wait_until_final
from pipelines.target.places import Target, make_state_dir
from trainer.json_types import Json

logger = logging.getLogger(__name__)

CANCEL_TIMEOUT_SECONDS = 180


class Interrupted(Exception):  # noqa: N818 - not an error: the user asked for it
    """Ctrl-C or SIGTERM arrived while the run went on."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended; `is_interrupted` when the user stopped it."""

    summary: Summary
    view: RunView
    is_interrupted: bool

    @property
    def is_promoted(self) -> bool:
        """Whether a new version of the model is the default now."""
        return bool(self.summary.model_version)


def new_run_name(workload: str) -> str:
    """A name that sorts by time: `mnist-20261121-093015`."""
    return f"{workload}-{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}"


def execute(
    config: RunConfig, *, target: Target, run: str, options: RunOptions, console: Console
) -> RunResult:
    """Runs the pipeline on `target` to its end, however it ends; everything is torn down then."""
    package = package_of(config.workload, image=options.image)
    submission = plan_run(package, run=run, target=target, config=config, options=options)
    task_names = leaf_tasks(package.spec)
    make_state_dir(target.state_dir)
    folder = target.run_dir(run)
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(package.text, encoding="utf-8")
    api = connect(target.project, target.location)
    with _interruptible(), _torn_down(api, run=run, keep_endpoint=config.keep_endpoint):
        try:
            create_run(api, submission.request, run=run)
            view = show_run(api, run=run, task_names=task_names, console=console)
            is_interrupted = False
        except Interrupted:
            console.print("[yellow]interrupted: cancelling the run and tearing down[/]")
            view = cancel_and_wait(api, run=run, task_names=task_names)
            is_interrupted = True
    summary = summary_of(view, submission.request, run=run)
    summary.write(folder)
    replicas = replicas_of_jobs(api, label=f'labels.{RUN_LABEL}="{run}"')
    write_report(summary, folder, replicas=replicas)
    return RunResult(summary=summary, view=view, is_interrupted=is_interrupted)


def summary_of(view: RunView, request: Json, *, run: str) -> Summary:
    """Return the facts of a run from its last view, and from its request if it never started."""
    facts = {"name": run, **request, **view.job, "state": view.state}
    error = {"error": {"message": view.error}} if view.error else {}
    summary = summarize({**facts, **error})
    warnings = dict.fromkeys([*view.warnings, *summary.warnings])
    return dataclasses.replace(summary, warnings=tuple(warnings))


def show_run(api: VertexApi, *, run: str, task_names: dict[str, str], console: Console) -> RunView:
    """Shows the run to its end; a service that is gone by then ends it, too."""
    view = view_of({}, task_names=task_names)
    with display_for(console) as display:
        try:
            for view in follow(api, run=run, task_names=task_names):
                display.show(view)
        except VertexError as error:
            return dataclasses.replace(view, state="PIPELINE_STATE_FAILED", error=str(error))
    return view


def cancel_and_wait(api: VertexApi, *, run: str, task_names: dict[str, str]) -> RunView:
    """Cancels the run and waits for its end; a run that was never there is as if cancelled."""
    name = f"{api.parent}/pipelineJobs/{run}"
    try:
        api.post(f"{name}:cancel", {})
        job = wait_until_final(api, run=run, timeout_seconds=CANCEL_TIMEOUT_SECONDS)
    except VertexError as error:
        if error.status != "NOT_FOUND":  # the interruption came before the submission
            raise
        job = {"state": "PIPELINE_STATE_CANCELLED"}
    warnings = TrainingLog(api, run=run).warnings()
    return dataclasses.replace(view_of(job, task_names=task_names), warnings=warnings)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Raise `Interrupted` on the first SIGINT or SIGTERM; ignore later ones, for the teardown.

    A signal that is ignored already stays so: SIGINT in a background job of a shell.
    """

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise Interrupted

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {n: handler for n, handler in handlers.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _torn_down(api: VertexApi, *, run: str, keep_endpoint: bool) -> Iterator[None]:
    """Tears the run down once more at the end: the exit task may not have come to it."""
    from components.teardown.teardown import TeardownError, teardown

    try:
        yield
    finally:
        try:
            teardown(api, run=run, keep_endpoint=keep_endpoint)
        except (TeardownError, VertexError, OSError) as error:
            logger.error("teardown of %s is not complete: %s", run, error)
