"""KFP component: the model that the new version belongs to."""

from typing import NamedTuple

from google_cloud_pipeline_components.types.artifact_types import (
    UnmanagedContainerModel,
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
