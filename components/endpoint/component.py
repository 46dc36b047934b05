"""KFP components: the endpoint to deploy to; a known version on it."""

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
    """Returns the endpoint of that name, which is created if there is none.

    Its metadata tells the teardown whether it served before this run: if so, it serves after it.
    """
    from components.endpoint.deployments import is_serving
    from components.endpoint.ensure import ensure_endpoint
    from components.vertex.api import connect
    from components.vertex.task_details import SERVED_BEFORE

    found = ensure_endpoint(connect(project, location), display_name, run=run)
    endpoint.metadata["resourceName"] = found["name"]
    endpoint.metadata[SERVED_BEFORE] = "yes" if is_serving(found) else "no"


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def serve_known(
    project: str,
    location: str,
    version: str,
    endpoint_name: str,
    machine: str,
    keep_endpoint: bool,
    run: str,
    golden: dsl.Input[dsl.Artifact],
) -> str:
    """Sees that the version which the trained model already has is served, and returns its name.

    It is deployed only where the endpoint is to be kept, or served another version before.
    """
    import json
    from pathlib import Path

    from components.endpoint.release import serve_promoted
    from components.vertex.api import connect
    from components.vertex.resource_name import ResourceName

    serve_promoted(
        connect(project, location),
        ResourceName.from_version_name(version),
        endpoint_name=endpoint_name,
        machine=machine,
        keep_endpoint=keep_endpoint,
        run=run,
        golden=json.loads(Path(golden.path).read_text()),
    )
    return version
