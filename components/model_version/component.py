"""KFP components: the champion, and the model that the new version belongs to."""

from typing import NamedTuple

from google_cloud_pipeline_components.types.artifact_types import (
    UnmanagedContainerModel,
    VertexModel,
)
from kfp import dsl

from components import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def find_champion(
    project: str,
    location: str,
    display_name: str,
) -> NamedTuple("Champion", [("version", str), ("model_uri", str)]):  # type: ignore[valid-type]
    """Find the version that new data and a new model are compared with.

    Returns:
        version: resource name of the promoted default version; model_uri: folder of its files. Both
        are empty for a new model.
    """
    from components.errors import errors_in_one_line
    from components.model_version.champion import find_champion
    from components.shared.vertex.api import connect

    with errors_in_one_line():
        champion = find_champion(connect(project, location), display_name)
    return (champion.version, champion.model_uri)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def find_version(
    project: str,
    location: str,
    display_name: str,
    model: dsl.Input[UnmanagedContainerModel],
    parent_model: dsl.Output[VertexModel],
) -> NamedTuple(  # type: ignore[valid-type]
    "Found",
    [("known_version", str), ("digest", str), ("champion_version", str), ("champion_uri", str)],
):
    """Find the model that the new version belongs to; its resource name is empty for a new model.

    The launcher of `ModelUploadOp` takes an empty resource name of the parent as a new model, so
    the DAG needs no second branch.

    Returns:
        known_version: The default version if it is the same model, else empty; digest: digest of
        the model's files; champion_version, champion_uri: the version that the model is to be
        compared with, and its folder, empty without one: the promoted default version, or, if the
        model is the same, the one that it was compared with before.
    """
    from pathlib import Path

    from components.errors import errors_in_one_line
    from components.model_version.champion import find_champion, find_compared
    from components.model_version.registry import find_model
    from components.model_version.same_model import find_promoted, model_digest
    from components.shared.vertex.api import connect

    api = connect(project, location)
    with errors_in_one_line():
        digest = model_digest(Path(model.path))
        parent = find_model(api, display_name)
        known_version = find_promoted(api, parent, digest) if parent else ""
        if known_version:
            champion = find_compared(api, known_version)
        else:
            champion = find_champion(api, display_name)
    parent_model.metadata["resourceName"] = parent
    return (known_version, digest, champion.version, champion.model_uri)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def record_evaluation(
    project: str,
    location: str,
    model: dsl.Input[VertexModel],
    evaluation: dsl.Input[dsl.Artifact],
    verdict: str,
    reasons: str,
    version: dsl.Output[VertexModel],
) -> str:
    """Attach the evaluation to a version, and the verdict as its description.

    A version whose model another run created at the same time is moved to that one first.

    Returns:
        Resource name of the model evaluation; version: the version.
    """
    from components.errors import errors_in_one_line
    from components.model_version.one_model import in_oldest_model
    from components.model_version.registry import describe_version
    from components.model_version.vertex_evaluation import model_evaluation
    from components.shared.text.json_object import read_object
    from components.shared.vertex.api import connect
    from components.shared.vertex.resource_name import ResourceName

    api = connect(project, location)
    uploaded = ResourceName.from_version_name(model.metadata["resourceName"])
    with errors_in_one_line():
        content = read_object(evaluation.path, "label_kind", "metrics")
        found = model_evaluation(content, display_name="test split", verdict=verdict)
        name = in_oldest_model(api, uploaded).name
        version.metadata["resourceName"] = name
        created = api.post(f"{name}/evaluations:import", {"modelEvaluation": found})
        describe_version(api, name, reasons)
    return str(created["name"])
