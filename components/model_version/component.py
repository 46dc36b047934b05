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
    """Find the model that the new version belongs to; its resource name is empty for a new model.

    The launcher of `ModelUploadOp` takes an empty resource name of the parent as a new model, so
    the DAG needs no second branch.

    Returns:
        known_version: The default version if it is the same model, else empty; digest: digest of
        the model's files.
    """
    from pathlib import Path

    from components.errors import errors_in_one_line
    from components.model_version.registry import find_model
    from components.model_version.same_model import find_promoted, model_digest
    from components.vertex.api import connect

    api = connect(project, location)
    digest = model_digest(Path(model.path))
    with errors_in_one_line():
        parent = find_model(api, display_name)
        known_version = find_promoted(api, parent, digest) if parent else ""
    parent_model.metadata["resourceName"] = parent
    return (known_version, digest)
