"""Start a run, show it to its end, and tear it down: `run`, `submit`, `resume` and `run-now`."""

import contextlib
import dataclasses
import logging
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

from rich.console import Console

from components.errors import StepError
from components.run_result.summary import Summary, summarize
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.teardown.run_resources import RunResources
from components.teardown.teardown import tear_down
from pipelines.places.target import Target, make_state_dir
from pipelines.resources.kinds import RUN
from pipelines.runs.output.display import Display, display_for
from pipelines.runs.reports import write_report_of
from pipelines.runs.submit import Submission
from pipelines.runs.view import RunView, TrainingLog, follow, view_of
from trainer import Json

logger = logging.getLogger(__name__)

CANCEL_TIMEOUT_SECONDS = 180
CREATION_SECONDS = 5.0  # until a service has carried out a request whose sender was interrupted
POLL_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """Result of a run; `is_interrupted` if the user cancelled it."""

    summary: Summary
    view: RunView
    is_interrupted: bool

    @property
    def is_promoted(self) -> bool:
        """Return whether the run's model is the default version now."""
        return bool(self.summary.model_version)


def show_to_end(
    api: VertexApi,
    submission: Submission,
    *,
    console: Console,
    create: Callable[[], object],
    wants_cancel: Callable[[], bool],
) -> RunResult:
    """Create a run with `create` and show it to its end.

    After Ctrl-C or SIGTERM the run is cancelled if `wants_cancel()`; otherwise it continues and
    KeyboardInterrupt is raised.
    """
    run, is_interrupted, display = submission.run, False, display_for(console)
    try:
        create()
        view = _show(api, run=run, display=display)
    except KeyboardInterrupt:
        if not wants_cancel():
            raise
        is_interrupted = True
        view = _cancel(api, run=run)
        display.show(view)
    summary = summary_of(view, submission.request, run=run)
    return RunResult(summary=summary, view=view, is_interrupted=is_interrupted)


@contextlib.contextmanager
def torn_down(
    api: VertexApi, submission: Submission, *, target: Target, keep_endpoint: bool
) -> Iterator[None]:
    """Tear a run down after the block; keep its package in the run's local folder.

    The pipeline's exit task does the same, but it may not have been reached. The first SIGINT or
    SIGTERM raises KeyboardInterrupt in the block; later ones are ignored, so that cancellation and
    teardown finish.
    """
    make_state_dir(target.state_dir)
    folder = target.run_dir(submission.run)
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(submission.package.text, encoding="utf-8")
    with interrupted_once():
        try:
            yield
        finally:
            try:
                tear_down(RunResources.of_run(api, submission.run), keep_endpoint=keep_endpoint)
            except (StepError, VertexError, OSError) as error:
                logger.error("%s; trainyard teardown %s tries it again", error, submission.run)


def write_result(api: VertexApi, result: RunResult, *, target: Target) -> None:
    """Write a run's summary and report to its local folder; log an error instead of raising it."""
    summary = result.summary
    folder = target.run_dir(summary.run)
    try:
        summary.write(folder)
        write_report_of(api, result.view.job, summary, folder)
    except OSError as error:  # the result itself is shown
        logger.error("the summary and report of %s are incomplete: %s", summary.run, error)


def summary_of(view: RunView, request: Json, *, run: str) -> Summary:
    """Return a run's facts from its last snapshot, or from its request if it never started."""
    facts = {**request, **view.job, "state": view.state}
    error = {"error": {"message": view.error}} if view.error else {}
    summary = summarize(facts | error, run=run)
    warnings = dict.fromkeys([*view.warnings, *summary.warnings])
    return dataclasses.replace(summary, warnings=tuple(warnings))


def _show(api: VertexApi, *, run: str, display: Display) -> RunView:
    """Show a run to its end; if the service stops responding, the run counts as failed."""
    view = view_of({})
    with display:
        try:
            for view in follow(api, run=run):
                display.show(view)
        except VertexError as error:
            return dataclasses.replace(view, state="PIPELINE_STATE_FAILED", error=str(error))
    return view


def _cancel(api: VertexApi, *, run: str) -> RunView:
    """Cancel a run and wait for its end; one that is not created counts as cancelled."""
    job = {"state": "PIPELINE_STATE_CANCELLED"}
    if _appears(api, run):
        RUN.cancel(api, run)
        job = RUN.wait(api, run, timeout_seconds=CANCEL_TIMEOUT_SECONDS)
    warnings = TrainingLog(api, run=run).warnings()
    return dataclasses.replace(view_of(job), warnings=warnings)


def _appears(api: VertexApi, run: str) -> bool:
    """Return whether a run exists, or is created soon by a request that was interrupted."""
    deadline = time.monotonic() + CREATION_SECONDS
    while not api.find(RUN.path(api, run)):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


@contextlib.contextmanager
def interrupted_once() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first SIGINT or SIGTERM and ignore later ones.

    A signal that is ignored already stays ignored: SIGINT in a background job of a shell.
    """

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        for number in handlers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    present = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {n: handler for n, handler in present.items() if handler is not signal.SIG_IGN}
    for number in handlers:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
