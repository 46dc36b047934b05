"""KFP component: the exit task of every run."""

from kfp import dsl

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def teardown(
    project: str,
    location: str,
    run: str,
    keep_endpoint: bool,
    status: dsl.PipelineTaskFinalStatus,
):
    """Ends and removes what the run made and nobody keeps, however the run ended."""
    from components.teardown.teardown import teardown
    from components.vertex_api import connect

    teardown(
        connect(project, location),
        run=run,
        succeeded=status.state == "SUCCEEDED",
        keep_endpoint=keep_endpoint,
    )
