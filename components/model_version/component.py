"""KFP components: find the model to add a version to; make a version the default."""

from google_cloud_pipeline_components.types.artifact_types import VertexEndpoint, VertexModel
from kfp import dsl

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def find_parent_model(
    project: str, location: str, display_name: str, parent_model: dsl.Output[VertexModel]
):
    """Finds the model that the new version belongs to; an empty resource name if it is the first.

    `ModelUploadOp`'s launcher uploads a new model when the parent's resource name is empty, which
    spares the DAG two branches with an upload each.
    """
    from components.model_version.registry import find_model
    from components.vertex_api import connect

    parent_model.metadata["resourceName"] = find_model(connect(project, location), display_name)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def promote(
    project: str,
    location: str,
    model: dsl.Input[VertexModel],
    endpoint: dsl.Input[VertexEndpoint],
) -> str:
    """Moves the alias `default` to this version and answers its resource name."""
    from components.model_version.registry import VersionName, promote
    from components.vertex_api import connect

    version = VersionName.from_name(model.metadata["resourceName"])
    promote(connect(project, location), version, endpoint=endpoint.metadata["resourceName"])
    return version.name
