"""KFP component: the endpoint to deploy to."""

from google_cloud_pipeline_components.types.artifact_types import VertexEndpoint
from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def ensure_endpoint(
    project: str,
    location: str,
    display_name: str,
    run: str,
    endpoint: dsl.Output[VertexEndpoint],
):
    """Find the endpoint of a display name, or create it.

    Its metadata tells the teardown whether it served before this run; if so, it serves afterwards.
    """
    from components.endpoint.deployments import is_serving
    from components.endpoint.ensure import ensure_endpoint
    from components.errors import errors_in_one_line
    from components.shared.vertex.api import connect
    from components.shared.vertex.creations import endpoint_id_of
    from components.shared.vertex.task_details import SERVED_BEFORE

    with errors_in_one_line():
        found = ensure_endpoint(
            connect(project, location), display_name, run=run, endpoint_id=endpoint_id_of(run)
        )
    endpoint.metadata["resourceName"] = found["name"]
    endpoint.metadata[SERVED_BEFORE] = "yes" if is_serving(found) else "no"
