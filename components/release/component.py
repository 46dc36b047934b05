"""KFP components: promotion of a new version, and service of a known one."""

from google_cloud_pipeline_components.types.artifact_types import VertexEndpoint, VertexModel
from kfp import dsl

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def promote(
    project: str,
    location: str,
    model: dsl.Input[VertexModel],
    endpoint: dsl.Input[VertexEndpoint],
    reasons: str = "",
) -> str:
    """Move the alias `default` to this version and return its resource name.

    Deployed versions of the same model without traffic are undeployed. The reasons of the verdict
    become the version's description.
    """
    from components.endpoint.deployments import undeploy_idle
    from components.errors import errors_in_one_line
    from components.model_version.registry import set_default
    from components.vertex.api import connect
    from components.vertex.resource_name import ResourceName

    api = connect(project, location)
    version = ResourceName.from_version_name(model.metadata["resourceName"])
    with errors_in_one_line():
        set_default(api, version, reasons=reasons)
        undeploy_idle(api, endpoint.metadata["resourceName"], keep=version)
    return version.name


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
    """Serve the registered version that is the same as the trained model, and return its name.

    It is deployed only if the endpoint is to be kept, or served another version before.
    """
    import json
    from pathlib import Path

    from components.errors import errors_in_one_line
    from components.release.release import serve_promoted
    from components.vertex.api import connect
    from components.vertex.resource_name import ResourceName

    with errors_in_one_line():
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
