"""End of a run: teardown, summary, and a request to a webhook on failure."""

import datetime
import logging
from pathlib import Path

from components.errors import StepError
from components.model_version.registry import version_name, was_promoted
from components.prepare_examples.output.publish import remove_leftovers
from components.run_result.report.content import Content, read_content
from components.run_result.report.facts import facts_of
from components.run_result.report.page import write_report
from components.run_result.summary import as_ended, summarize
from components.run_result.webhook import post_summary
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import WAITING
from components.shared.vertex.task_details import replicas_of_jobs
from components.teardown.lost import tear_down_earlier
from components.teardown.run_resources import RunResources
from components.teardown.teardown import tear_down
from trainer import Json

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
    report_success: bool = False,
) -> Json:
    """Tear a run down, post its summary to the webhook unless the result is good, and write it.

    If the summary or the report cannot be written, or the webhook not reached, the run does not
    fail: a promoted version is served all the same. Each is logged; the webhook's failure is
    also a warning. `state` is SUCCEEDED, FAILED or CANCELLED; with `report_success` the summary
    is posted whatever it is.

    Returns:
        Metadata of the summary artifact: facts that are in no other task's outputs, and those that
        lists of runs show.

    Raises:
        StepError: Something could not be removed; lists it with the reasons.
    """
    logger.info("state of the run: %s", state)
    resources = RunResources.of_run(api, run)
    problem = None
    try:
        tear_down(resources, keep_endpoint=keep_endpoint)
    except StepError as teardown_error:
        problem = teardown_error
        state, error = "FAILED", "\n".join(filter(None, [error, str(teardown_error)]))
    replicas = replicas_of_jobs(api, label=resources.label)
    warnings = [warning for of_job in replicas for warning in of_job.get("warnings", [])]
    warnings += _end_earlier(api, resources)
    metadata = {"promoted": _promoted(resources), "warnings": "\n".join(warnings)}
    job = as_ended(
        resources.job,
        state=state,
        error=error,
        now=datetime.datetime.now(datetime.UTC),
        has_exit_failed=problem is not None,
    )
    summary = summarize(job, run=run, exit_metadata=metadata)
    is_reported = report_success or not summary.is_good or summary.outcome == WAITING
    if on_failure_url and is_reported:
        failure = post_summary(on_failure_url, summary.to_message())
        if failure:
            logger.warning("%s", failure)
            metadata["warnings"] = "\n".join([*summary.warnings, failure])
            summary = summarize(job, run=run, exit_metadata=metadata)
    run_folder = Path(summary_path).parent
    remove_leftovers(run_folder / "prepare-examples" / "examples")  # of a killed step
    content = Content(summary=summary)
    try:
        content = read_content(job, summary, replicas=replicas, folder=run_folder)
    except Exception:  # its files are for people; the run's result does not depend on them
        logger.exception("the results of %s cannot be read", run)
    _write(content, run_folder)
    if problem:
        raise problem
    return metadata | facts_of(content)


def _end_earlier(api: VertexApi, resources: RunResources) -> list[str]:
    """Tear down earlier runs that were lost; return failures, which do not fail this run."""
    try:
        return list(tear_down_earlier(api, resources.job))
    except (VertexError, OSError) as error:
        logger.warning("earlier runs were not looked at: %s", error)
        return [f"earlier runs were not looked at: {error}"]


def _write(content: Content, folder: Path) -> None:
    """Write the summary and the report; log an error instead of raising it."""
    try:
        content.summary.write(folder)
    except OSError as error:
        logger.error("%s cannot be written: %s", folder, error)
    try:
        write_report(content, folder)
    except Exception:  # of a page for people; the run's result does not depend on it
        logger.exception("the report of %s cannot be written", content.summary.run)


def _promoted(resources: RunResources) -> str:
    """Return the version that the run promoted, "" if there is none or it cannot be read."""
    try:
        promoted = [
            version_name(record).name for record in resources.versions if was_promoted(record)
        ]
    except VertexError as error:
        logger.warning("the versions of %s cannot be read: %s", resources.run, error)
        return ""
    return promoted[0] if promoted else ""
