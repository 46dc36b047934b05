"""Models in the registry, their versions and the default version."""

import logging

from components.model_version.history import BY_HAND, with_event
from components.shared.vertex.api import VertexApi, list_named
from components.shared.vertex.labels import CANDIDATE, CHALLENGER, PROMOTED, STATE_LABEL
from components.shared.vertex.resource_name import ResourceName
from trainer import Json
from trainer.config.trust import Trust

logger = logging.getLogger(__name__)

LRO_TIMEOUT_SECONDS = 1800
DEFAULT, PREVIOUS = "default", "previous"


def version_name(version: Json) -> ResourceName:
    """Return the resource name of a model version; the API returns it without the version."""
    return ResourceName.from_name(version["name"]).with_version(version["versionId"])


def find_model(api: VertexApi, display_name: str) -> str:
    """Return the resource name of the oldest model of a display name, "" without one."""
    models = list(list_named(api, "models", display_name))
    if not models:
        return ""
    oldest = min(models, key=lambda model: (model["createTime"], model["name"]))
    return ResourceName.from_name(oldest["name"]).unversioned


def list_versions(api: VertexApi, model: str, *, filter: str = "") -> list[Json]:
    """Return the versions of a model that `filter` matches, oldest first."""
    versions = api.list_resources(f"{model}:listVersions", filter=filter)
    return sorted(versions, key=lambda version: int(version["versionId"]))


def with_alias(versions: list[Json], alias: str) -> Json | None:
    """Return the version with `alias`, None without one."""
    return next((v for v in versions if alias in v.get("versionAliases", [])), None)


def trust_of(version: Json) -> Trust:
    """Return the trust in the author of a version, which its server's arguments record."""
    return Trust.from_flags(version.get("containerSpec", {}).get("args", []))


def is_candidate(version: Json) -> bool:
    """Return whether a run uploaded the version and has not promoted it."""
    return bool(version.get("labels", {}).get(STATE_LABEL) == CANDIDATE)


def was_promoted(version: Json) -> bool:
    """Return whether the version was promoted by a run, or uploaded by hand."""
    return version.get("labels", {}).get(STATE_LABEL) not in (CANDIDATE, CHALLENGER)


def describe_version(api: VertexApi, name: str, reasons: str) -> None:
    """Make the reasons of a verdict the description of a version."""
    text = "; ".join(reasons.splitlines())
    api.patch(f"{name}?updateMask=versionDescription", {"versionDescription": text})


def set_default(
    api: VertexApi, version: ResourceName, *, cause: str = BY_HAND, reasons: str = ""
) -> None:
    """Move the alias `default` to `version`, and `previous` to the former default.

    The first version of a model is its default even as a candidate; it never becomes `previous`.
    The version is labelled first, as promoted and with the cause: teardown can complete an
    interrupted promotion.

    Args:
        api: Project and location.
        version: The new default.
        cause: Entry of the model's history (`history.py`).
        reasons: Description of a version that a run promotes: its verdict.
    """
    versions = list_versions(api, version.unversioned)
    former = with_alias(versions, DEFAULT)
    is_default = former is not None and str(former["versionId"]) == version.version
    record = next(
        (candidate for candidate in versions if str(candidate["versionId"]) == version.version),
        None,
    )
    if record and (not was_promoted(record) or not is_default):
        _record(api, version, record, cause=cause, reasons=reasons)
    if former and not is_default and was_promoted(former):
        add_alias(api, version_name(former), PREVIOUS)
    add_alias(api, version, DEFAULT)
    note = f" (before: {former['versionId']})" if former else ""
    logger.info("%s is now the default version%s", version, note)


def add_alias(api: VertexApi, version: ResourceName, alias: str) -> None:
    """Move an alias to a version."""
    api.post(f"{version.name}:mergeVersionAliases", {"versionAliases": [alias]})


def _record(
    api: VertexApi, version: ResourceName, record: Json, *, cause: str, reasons: str
) -> None:
    """Label a version that becomes the default, as promoted and with the cause."""
    labels = with_event(record.get("labels", {}), cause)
    if not was_promoted(record):
        labels[STATE_LABEL] = PROMOTED
    changes: Json = {"labels": labels}
    if reasons and not was_promoted(record):
        changes["versionDescription"] = "; ".join(reasons.splitlines())
    api.patch(f"{version.name}?updateMask={','.join(changes)}", changes)
