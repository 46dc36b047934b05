"""The champion: the promoted default version of a model, to which a new one is compared."""

from dataclasses import dataclass

from components.model_version.registry import (
    DEFAULT,
    find_model,
    list_versions,
    version_name,
    was_promoted,
    with_alias,
)
from components.shared.vertex.api import VertexApi
from trainer import Json


@dataclass(frozen=True, kw_only=True)
class Champion:
    """The default version of a model and the folder of its files; both "" without one."""

    version: str = ""
    model_uri: str = ""


def find_champion(api: VertexApi, display_name: str) -> Champion:
    """Return the promoted default version of the model with a display name.

    A version that a run has uploaded and not promoted is no champion, even if it is the default, as
    the first version of a model always is.
    """
    model = find_model(api, display_name)
    return default_champion(api, model) if model else Champion()


def default_champion(api: VertexApi, model: str) -> Champion:
    """Return the promoted default version of the model with a resource name."""
    return champion_of(list_versions(api, model))


def champion_of(versions: list[Json]) -> Champion:
    """Return the promoted default version among the versions of a model."""
    version = with_alias(versions, DEFAULT)
    return _champion(version) if version and was_promoted(version) else Champion()


def find_compared(api: VertexApi, version: str) -> Champion:
    """Return the version that a promoted one was compared with, none if it no longer exists.

    A run that trains the same model again compares it with the same version, so its evaluation is
    in the cache.
    """
    evaluations = api.list_resources(f"{version}/evaluations")
    ours = [evaluation for evaluation in evaluations if "champion" in _facts(evaluation)]
    if not ours:
        return Champion()
    latest = max(ours, key=lambda evaluation: str(evaluation["createTime"]))
    compared = _facts(latest)["champion"]
    version_record = api.find(compared["version"]) if compared else None
    return _champion(version_record) if version_record else Champion()


def _champion(version: Json) -> Champion:
    return Champion(version=version_name(version).name, model_uri=version.get("artifactUri", ""))


def _facts(evaluation: Json) -> Json:
    """Return what `record_evaluation` has noted; {} for the evaluation of another program."""
    metadata = evaluation.get("metadata")
    return metadata if isinstance(metadata, dict) else {}
