"""Models in the registry, their versions and the default version."""

import logging

from components.labels import CANDIDATE, PROMOTED, STATE_LABEL
from components.vertex.api import VertexApi
from components.vertex.resource_name import ResourceName
from trainer.json_types import Json

logger = logging.getLogger(__name__)

LRO_TIMEOUT_SECONDS = 1800
DEFAULT, PREVIOUS = "default", "previous"


def version_name(version: Json) -> ResourceName:
    """Return the resource name of a model version; the API returns it without the version."""
    return ResourceName.from_name(version["name"]).with_version(version["versionId"])


def find_model(api: VertexApi, display_name: str) -> str:
    """Return the resource name of the oldest model of a display name, "" without one."""
    models = list(api.list_resources("models", filter=f'display_name="{display_name}"'))
    if not models:
        return ""
    oldest = min(models, key=lambda model: model["createTime"])
    return ResourceName.from_name(oldest["name"]).unversioned


def list_versions(api: VertexApi, model: str, *, filter: str = "") -> list[Json]:
    """Return the versions of a model that `filter` matches, oldest first."""
    versions = api.list_resources(f"{model}:listVersions", filter=filter)
    return sorted(versions, key=lambda version: int(version["versionId"]))


def with_alias(versions: list[Json], alias: str) -> Json | None:
    """Return the version with `alias`, None without one."""
    return next((v for v in versions if alias in v.get("versionAliases", [])), None)


def is_candidate(version: Json) -> bool:
    """Return whether a run uploaded the version and has not promoted it."""
    return bool(version.get("labels", {}).get(STATE_LABEL) == CANDIDATE)


def set_default(api: VertexApi, version: ResourceName, *, reasons: str = "") -> None:
    """Move the alias `default` to `version`, and `previous` to the former default.

    The reasons of a run's verdict become the description of a version that the run promotes.
    The first version of a model is its default even as a candidate; it never becomes `previous`.
    The version is labelled as promoted first: teardown can complete an interrupted promotion.
    """
    versions = list_versions(api, version.unversioned)
    former = with_alias(versions, DEFAULT)
    for found in versions:
        if str(found["versionId"]) == version.version and is_candidate(found):
            _mark_promoted(api, version, found, reasons=reasons)
    if former and str(former["versionId"]) != version.version and not is_candidate(former):
        add_alias(api, version_name(former), PREVIOUS)
    add_alias(api, version, DEFAULT)
    note = f" (before: {former['versionId']})" if former else ""
    logger.info("%s is now the default version%s", version, note)


def add_alias(api: VertexApi, version: ResourceName, alias: str) -> None:
    """Move an alias to a version."""
    api.post(f"{version.name}:mergeVersionAliases", {"versionAliases": [alias]})


def _mark_promoted(api: VertexApi, version: ResourceName, found: Json, *, reasons: str) -> None:
    changes: Json = {"labels": {**found.get("labels", {}), STATE_LABEL: PROMOTED}}
    if reasons:
        changes["versionDescription"] = "; ".join(reasons.splitlines())
    api.patch(f"{version.name}?updateMask={','.join(changes)}", changes)
