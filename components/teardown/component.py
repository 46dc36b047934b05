"""KFP component: the exit task of every run."""

from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def teardown(
    project: str,
    location: str,
    run: str,
    keep_endpoint: bool,
    summary: dsl.Output[dsl.Artifact],
    status: dsl.PipelineTaskFinalStatus,
    on_failure_url: str = "",
    report_success: bool = False,
):
    """Cancel and delete everything a run created, except the model version it promoted.

    Args:
        project: Project of the run.
        location: Location of the run.
        run: Name of the run.
        keep_endpoint: Leave the promoted version deployed.
        summary: The run's `summary.json`, in the run's own folder.
        status: Final status of the run.
        on_failure_url: Receives the summary unless the run succeeded and passed the gate; also if
            its version waits for an approval.
        report_success: It receives the summary of every run.
    """
    from components.errors import errors_in_one_line
    from components.shared.vertex.api import connect
    from components.teardown.ending import end_run
    from components.time_limit import LONG_SECONDS

    summary.uri = summary.uri.rpartition(f"/{run}/")[0] + f"/{run}/summary.json"
    with errors_in_one_line() as limit:
        limit.set(LONG_SECONDS)  # each of its waits has a limit of its own
        metadata = end_run(
            connect(project, location),
            run=run,
            keep_endpoint=keep_endpoint,
            state=status.state,
            error=status.error_message or "",
            summary_path=summary.path,
            on_failure_url=on_failure_url,
            report_success=report_success,
        )
    summary.metadata.update(metadata)
