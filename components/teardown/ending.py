"""Ends a run: tears it down, writes its summary, and tells a webhook of a bad end."""

import datetime
import logging
from pathlib import Path

from components.model_version.registry import is_candidate, version_name
from components.run_summary.report import write_report
from components.run_summary.summary import Summary, as_ended, summarize
from components.run_summary.webhook import post_summary
from components.teardown.made import Made
from components.teardown.teardown import TeardownError, tear_down
from components.vertex.api import VertexApi, VertexError
from components.vertex.job_warnings import replicas_of_jobs
from trainer.json_types import Json

logger = logging.getLogger(__name__)


def end_run(
    api: VertexApi,
    *,
    run: str,
    keep_endpoint: bool,
    state: str,
    error: str,
    summary_path: str,
    on_failure_url: str = "",
) -> dict[str, str]:
    """Tear a run down, then write its summary, then tell the webhook unless it ended well.

    A summary that cannot be written, or a webhook that cannot be told, is reported and fails
    nothing: what the run promoted is served all the same.

    Args:
        api: Where.
        run: Its name.
        keep_endpoint: Leave the promoted model deployed.
        state: How the run ended: SUCCEEDED, FAILED or CANCELLED.
        error: Why, unless it succeeded.
        summary_path: File to write.
        on_failure_url: Webhook, or "".

    Returns:
        Metadata of the summary's artifact, from which the commands read what no task put out.

    Raises:
        TeardownError: what could not be removed, and why.
    """
    logger.info("the run is %s", state)
    made = Made.by(api, run)
    problem = None
    try:
        tear_down(made, keep_endpoint=keep_endpoint)
    except TeardownError as one:
        problem = one
        state, error = "FAILED", "\n".join(filter(None, [error, str(one)]))
    replicas = replicas_of_jobs(api, label=made.label)
    warnings = [warning for told in replicas for warning in told.get("warnings", [])]
    metadata = {"promoted": _promoted(made), "warnings": "\n".join(warnings)}
    job = as_ended(
        made.job,
        state=state,
        error=error,
        now=datetime.datetime.now(datetime.UTC),
        has_exit_failed=problem is not None,
    )
    summary = summarize(job, run=run, exit_metadata=metadata)
    _write(summary, Path(summary_path), replicas=replicas)
    if on_failure_url and not summary.is_good:
        failure = post_summary(on_failure_url, summary.to_message())
        if failure:
            logger.warning("%s", failure)
            metadata["warnings"] = "\n".join([*summary.warnings, failure])
            _write(
                summarize(job, run=run, exit_metadata=metadata),
                Path(summary_path),
                replicas=replicas,
            )
    if problem:
        raise problem
    return metadata


def _write(summary: Summary, path: Path, *, replicas: list[Json]) -> None:
    """Write the summary, and beside it the page for people."""
    try:
        summary.write(path.parent)
        write_report(summary, path.parent, replicas=replicas)
    except OSError as error:
        logger.error("%s cannot be written: %s", path, error)


def _promoted(made: Made) -> str:
    """Return the version of the run that is promoted now, "" if none is or it is not known."""
    try:
        kept = [version_name(one).name for one in made.versions if not is_candidate(one)]
    except VertexError as error:
        logger.warning("the versions of %s cannot be read: %s", made.run, error)
        return ""
    return kept[0] if kept else ""
