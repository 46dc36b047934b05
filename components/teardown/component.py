"""KFP component: the exit task of every run."""

from kfp import dsl

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def teardown(
    project: str,
    location: str,
    run: str,
    keep_endpoint: bool,
    summary: dsl.Output[dsl.Artifact],
    status: dsl.PipelineTaskFinalStatus,
    on_failure_url: str = "",
):
    """Cancels and deletes what the run made, except what it promoted, however the run ended.

    Args:
        project: of the run.
        location: of the run.
        run: the run's name.
        keep_endpoint: leave the promoted model deployed.
        summary: the run's `summary.json`, in the run's own folder.
        status: how the run ended.
        on_failure_url: is sent the summary unless the run ended as it was meant to.
    """
    from components.teardown.ending import end_run
    from components.vertex.api import connect

    summary.uri = summary.uri.rpartition(f"/{run}/")[0] + f"/{run}/summary.json"
    metadata = end_run(
        connect(project, location),
        run=run,
        keep_endpoint=keep_endpoint,
        state=status.state,
        error=status.error_message or "",
        summary_path=summary.path,
        on_failure_url=on_failure_url,
    )
    summary.metadata.update(metadata)
