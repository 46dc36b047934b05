"""Models in the registry, their versions, and which of these is the default."""

import logging

from components.labels import CANDIDATE, PROMOTED, STATE_LABEL
from components.vertex.api import VertexApi
from components.vertex.resource_name import ResourceName
from trainer.json_types import Json

logger = logging.getLogger(__name__)

LRO_TIMEOUT_SECONDS = 1800
DEFAULT, PREVIOUS = "default", "previous"


def version_name(version: Json) -> ResourceName:
    """Return the name of a model version, which the API returns apart from its number."""
    return ResourceName.from_name(version["name"]).with_version(version["versionId"])


def find_model(api: VertexApi, display_name: str) -> str:
    """The resource name, without a version, of the oldest model of that name; `""` if none is."""
    models = list(api.list_resources("models", filter=f'display_name="{display_name}"'))
    if not models:
        return ""
    oldest = min(models, key=lambda model: model["createTime"])
    return ResourceName.from_name(oldest["name"]).unversioned


def list_versions(api: VertexApi, model: str, *, filter: str = "") -> list[Json]:
    """Every version of a model that `filter` matches, oldest first."""
    versions = api.list_resources(f"{model}:listVersions", filter=filter)
    return sorted(versions, key=lambda version: int(version["versionId"]))


def with_alias(versions: list[Json], alias: str) -> Json | None:
    """Return the version that has `alias`, if one has."""
    return next((v for v in versions if alias in v.get("versionAliases", [])), None)


def is_candidate(version: Json) -> bool:
    """Whether a run has uploaded the version and not promoted it."""
    return bool(version.get("labels", {}).get(STATE_LABEL) == CANDIDATE)


def set_default(api: VertexApi, version: ResourceName) -> None:
    """Move `default` to `version`, and `previous` to the version that was promoted before it.

    A candidate that is the default only because it was the first never becomes `previous`. The mark
    as promoted comes first: a promotion that is interrupted can then be completed.
    """
    versions = list_versions(api, version.unversioned)
    before = with_alias(versions, DEFAULT)
    for found in versions:
        if str(found["versionId"]) == version.version and is_candidate(found):
            _mark_promoted(api, version, found)
    if before and str(before["versionId"]) != version.version and not is_candidate(before):
        add_alias(api, version_name(before), PREVIOUS)
    add_alias(api, version, DEFAULT)
    said = f" (before: {before['versionId']})" if before else ""
    logger.info("%s is now the default version%s", version, said)


def add_alias(api: VertexApi, version: ResourceName, alias: str) -> None:
    """Gives `alias` to a version; the version that had it loses it."""
    api.post(f"{version.name}:mergeVersionAliases", {"versionAliases": [alias]})


def _mark_promoted(api: VertexApi, version: ResourceName, found: Json) -> None:
    labels = {**found.get("labels", {}), STATE_LABEL: PROMOTED}
    api.patch(f"{version.name}?updateMask=labels", {"labels": labels})
