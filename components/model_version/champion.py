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
from components.vertex.api import VertexApi


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
    version = with_alias(list_versions(api, model), DEFAULT) if model else None
    if not version or not was_promoted(version):
        return Champion()
    return Champion(version=version_name(version).name, model_uri=version.get("artifactUri", ""))
