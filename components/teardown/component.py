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
    """Cancels and deletes what the run made, except what it promoted, however the run ended."""
    import logging

    from components.teardown.teardown import teardown
    from components.vertex_api import connect

    logging.getLogger("teardown").info("the run is %s", status.state)
    teardown(connect(project, location), run=run, keep_endpoint=keep_endpoint)
