"""KFP components: find the model to add a version to; make a version the default."""

from typing import NamedTuple

from google_cloud_pipeline_components.types.artifact_types import (
    UnmanagedContainerModel,
    VertexEndpoint,
    VertexModel,
)
from kfp import dsl

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def find_version(
    project: str,
    location: str,
    display_name: str,
    model: dsl.Input[UnmanagedContainerModel],
    parent_model: dsl.Output[VertexModel],
) -> NamedTuple("Found", [("known_version", str), ("digest", str)]):  # type: ignore[valid-type]
    """Finds the model that the new version belongs to; an empty resource name if it is the first.

    `ModelUploadOp`'s launcher uploads a new model when the parent's resource name is empty, which
    spares the DAG two branches with an upload each.

    Returns:
        known_version: The default version if it is this very model, else empty; digest: of the
        model's files.
    """
    from pathlib import Path

    from components.model_version.registry import find_model
    from components.model_version.same_model import find_promoted, model_digest
    from components.vertex.api import connect

    api = connect(project, location)
    digest = model_digest(Path(model.path))
    parent = find_model(api, display_name)
    parent_model.metadata["resourceName"] = parent
    return (find_promoted(api, parent, digest) if parent else "", digest)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def promote(
    project: str,
    location: str,
    model: dsl.Input[VertexModel],
    endpoint: dsl.Input[VertexEndpoint],
) -> str:
    """Moves the alias `default` to this version and returns its resource name.

    Deployed versions of the same model that get no traffic any more are undeployed.
    """
    from components.endpoint.deployments import undeploy_idle
    from components.model_version.registry import set_default
    from components.vertex.api import connect
    from components.vertex.resource_name import ResourceName

    api = connect(project, location)
    version = ResourceName.from_version_name(model.metadata["resourceName"])
    set_default(api, version)
    undeploy_idle(api, endpoint.metadata["resourceName"], keep=version)
    return version.name
