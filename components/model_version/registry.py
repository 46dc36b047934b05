"""Models in the registry, their versions and the default version."""

import logging
from collections.abc import Callable

from components.errors import StepError
from components.model_version.decisions import described, is_rejected, update_version
from components.model_version.history import BY_HAND, with_event, without_event
from components.shared.vertex.api import VertexApi, list_named
from components.shared.vertex.labels import (
    CANDIDATE,
    CHALLENGER,
    PROMOTED,
    REJECTED,
    STATE_LABEL,
    WAITING,
    label_of,
)
from components.shared.vertex.resource_name import ResourceName
from trainer import Json
from trainer.config.trust import Trust

logger = logging.getLogger(__name__)

DEFAULT, PREVIOUS = "default", "previous"
UNPROMOTED = (CANDIDATE, CHALLENGER, WAITING, REJECTED)


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
    """Return the versions that `filter` matches of a model, named alone or by one, oldest first."""
    versions = api.list_resources(f"{model.partition('@')[0]}:listVersions", filter=filter)
    return sorted(versions, key=lambda version: int(version["versionId"]))


def with_alias(versions: list[Json], alias: str) -> Json | None:
    """Return the version with `alias`, None without one."""
    return next((v for v in versions if alias in v.get("versionAliases", [])), None)


def trust_of(version: Json) -> Trust:
    """Return the trust in the author of a version, which its server's arguments record."""
    return Trust.from_flags(version.get("containerSpec", {}).get("args", []))


def is_candidate(version: Json) -> bool:
    """Return whether a run uploaded the version and has not promoted it."""
    return label_of(version, STATE_LABEL) == CANDIDATE


def was_promoted(version: Json) -> bool:
    """Return whether the version was promoted by a run, or uploaded by hand, and not rejected."""
    return label_of(version, STATE_LABEL) not in UNPROMOTED


def describe_version(api: VertexApi, version: ResourceName, reasons: str) -> None:
    """Make the reasons of a verdict the description of a version."""
    text = "; ".join(reasons.splitlines())
    update_version(api, version, lambda record: {"versionDescription": described(record, text)})


def set_default(
    api: VertexApi,
    version: ResourceName,
    *,
    cause: str = BY_HAND,
    reasons: str = "",
    confirm: Callable[[], None] | None = None,
) -> None:
    """Move the alias `default` to `version`, and `previous` to the former default.

    The first version of a model is its default even as a candidate; it never becomes
    `previous`. The version is labelled first, as promoted and with the cause: teardown can
    complete an interrupted promotion. `cause` is an entry of the model's history
    (`history.py`), `reasons` the verdict that becomes the description of a version that a run
    promotes. `confirm` raises StepError if the version must not become the default. It is
    called just before the alias moves and after: a decision that a person makes meanwhile
    prevails, as does Ctrl-C, and labels and aliases return to what they were.
    """
    versions = list_versions(api, version.unversioned)
    former, previous = with_alias(versions, DEFAULT), with_alias(versions, PREVIOUS)
    is_default = former is not None and str(former["versionId"]) == version.version
    state = _state_of(versions, version)
    if state in UNPROMOTED or not is_default:
        is_by_person = not cause.startswith(PROMOTED)
        may_lift = is_by_person and state == REJECTED
        _record(api, version, cause=cause, reasons=reasons, may_lift=may_lift)
    try:
        if confirm:
            confirm()
        if former and not is_default and was_promoted(former):
            add_alias(api, version_name(former), PREVIOUS)
        add_alias(api, version, DEFAULT)
        if confirm:
            confirm()
    except (StepError, KeyboardInterrupt):
        _take_back(api, version, state=state, former=former, previous=previous)
        raise
    note = f" (before: {former['versionId']})" if former else ""
    logger.info("%s is now the default version%s", version, note)


def add_alias(api: VertexApi, version: ResourceName, alias: str) -> None:
    """Move an alias to a version; `-ALIAS` removes it."""
    api.post(f"{version.name}:mergeVersionAliases", {"versionAliases": [alias]})


def _state_of(versions: list[Json], version: ResourceName) -> str:
    labels = [v.get("labels", {}) for v in versions if version_name(v) == version]
    return str(labels[0].get(STATE_LABEL, "")) if labels else ""


def _record(
    api: VertexApi, version: ResourceName, *, cause: str, reasons: str, may_lift: bool
) -> None:
    """Label a version that becomes the default, as promoted and with the cause.

    Raises:
        StepError: It was rejected in this moment.
    """

    def change(record: Json) -> Json:
        if is_rejected(record) and not may_lift:
            raise StepError(f"{version} was rejected during its release")
        labels = with_event(record.get("labels", {}), cause)
        changes: Json = {"labels": labels}
        if not was_promoted(record):
            labels[STATE_LABEL] = PROMOTED
            if reasons:
                text = "; ".join(reasons.splitlines())
                changes["versionDescription"] = described(record, text)
        return changes

    update_version(api, version, change)


def _take_back(
    api: VertexApi, version: ResourceName, *, state: str, former: Json | None, previous: Json | None
) -> None:
    """Give a version that must not be the default its state back, and the others their aliases."""

    def change(record: Json) -> Json:
        labels = without_event(record["labels"])
        if state and not is_rejected(record):
            labels[STATE_LABEL] = state
        return {"labels": labels}

    update_version(api, version, change)
    now = with_alias(list_versions(api, version.unversioned), DEFAULT)
    if former is None or now is None or version_name(now) != version:
        return  # somebody else has moved the alias meanwhile
    add_alias(api, version_name(former), DEFAULT)
    if previous:
        add_alias(api, version_name(previous), PREVIOUS)
    else:
        add_alias(api, version_name(former), f"-{PREVIOUS}")
