"""Models and their versions: show, change and delete."""

from collections.abc import Callable, Sequence
from operator import itemgetter

from components.model_version.history import (
    BY_HAND,
    HistoryEntry,
    cause_of,
    decision_history,
    history_of,
)
from components.model_version.registry import (
    DEFAULT,
    list_versions,
    set_default,
    version_name,
)
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import HELD_LABEL
from components.shared.vertex.resource_name import ResourceName
from pipelines.errors import ResourceError
from pipelines.resources.endpoints import list_endpoints
from pipelines.resources.names import (
    get_version,
    model_name,
    second,
    shown_model,
    this_person,
    version_text,
    when,
)
from pipelines.resources.table import TextTable
from trainer import Json


def all_versions(api: VertexApi) -> list[Json]:
    """Return each version of each model, oldest model first."""
    models = sorted(api.list_resources("models"), key=itemgetter("createTime"))
    return [version for model in models for version in list_versions(api, model["name"])]


def models_table(versions: Sequence[Json]) -> TextTable:
    """Return a row for each version."""
    rows = [
        (
            version["displayName"],
            version["versionId"],
            ", ".join(version.get("versionAliases", [])),
            when(version, "versionCreateTime"),
        )
        for version in versions
    ]
    return TextTable(("MODEL", "VERSION", "ALIASES", "CREATED"), rows)


def model_history(api: VertexApi, model: str) -> list[HistoryEntry]:
    """Return when each version of a model was its default, and all decisions, newest first."""
    versions = list_versions(api, model)
    entries = [*history_of(versions), *decision_history(versions)]
    return sorted(entries, key=lambda entry: entry.since)[::-1]


def history_table(entries: Sequence[HistoryEntry]) -> TextTable:
    """Return a row for each time that a version became the default, and for each decision."""
    rows = []
    for period in entries:
        why = f"{period.cause}: {period.reasons}" if period.reasons else period.cause
        until = "-" if period.is_decision else second(period.until) or "now"
        rows.append((period.version, second(period.since), until, period.actor or "-", why))
    return TextTable(("VERSION", "SINCE", "DEFAULT UNTIL", "BY", "WHY"), rows)


def delete_model(api: VertexApi, name: str, *, confirm_all: Callable[[int], bool]) -> str:
    """Delete a model, or one version of it (`mnist@2`); return what was deleted.

    `confirm_all` is asked with the number of versions before all of several are deleted.

    Raises:
        ResourceError: the version is the default, or the deletion of all was not confirmed.
    """
    base, at, _ = name.partition("@")
    if at:
        record = get_version(api, name)
        version = version_name(record)
        if DEFAULT in record.get("versionAliases", []):
            hint = f"make another the default first: trainyard models set-default {base}@VERSION"
            if len(list_versions(api, version.unversioned)) == 1:
                hint = f"delete the model with it: trainyard models delete {base}"
            raise ResourceError(f"{version_text(record)} is the default version; {hint}")
        if HELD_LABEL in record.get("labels", {}):
            raise ResourceError(
                f"{name} has the hold of its model, which would be deleted with it; end the hold"
                f" first: trainyard models release {base}"
            )
        full_name, method = version.name, ":deleteVersion"
    else:
        full_name, method = model_name(api, name), ""
        num_versions = len(list_versions(api, full_name))
        if num_versions > 1 and not confirm_all(num_versions):
            raise ResourceError(
                f"{name} has {num_versions} versions; delete one by name, such as {name}@1, or all "
                "with --all"
            )
    shown = shown_model(api, full_name)
    try:
        api.wait(api.delete(f"{full_name}{method}"))
    except VertexError as error:
        raise _with_commands(api, full_name, error) from error
    return f"{shown}@{version.version}" if at else shown


def _with_commands(api: VertexApi, model: str, error: VertexError) -> VertexError:
    """Return the error that a model is deployed with the commands that undeploy its versions."""
    base = ResourceName.from_name(model).unversioned
    commands = [
        f"trainyard endpoints undeploy {served['version']} --endpoint {endpoint['endpoint']}"
        for endpoint in list_endpoints(api)
        for served in endpoint["serves"]
        if served["model"] == base
    ]
    if commands:
        lines = [f"{shown_model(api, base)} is deployed; first:", *commands]
        return error.final("\n".join(lines))
    return error


def set_default_version(api: VertexApi, name: str) -> str:
    """Make `mnist@2` or `mnist@previous` the default version; return it as `mnist@NUMBER`.

    Raises:
        ResourceError: the name has no version.
    """
    version = get_version(api, name)
    set_default(api, version_name(version), cause=cause_of(BY_HAND, this_person()))
    return version_text(version)
