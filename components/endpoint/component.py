"""KFP component: the endpoint to deploy to."""

from google_cloud_pipeline_components.types.artifact_types import VertexEndpoint
from kfp import dsl

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def ensure_endpoint(
    project: str,
    location: str,
    display_name: str,
    run: str,
    endpoint: dsl.Output[VertexEndpoint],
):
    """Answers the endpoint of that name, which is created if there is none."""
    from components.endpoint.ensure import ensure_endpoint
    from components.vertex_api import connect

    name = ensure_endpoint(connect(project, location), display_name, run=run)
    endpoint.metadata["resourceName"] = name
