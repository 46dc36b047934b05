"""Models and endpoints: show, change and delete (jobs and runs: pipelines/kinds.py)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from components.endpoint.deployments import undeploy_version, version_of
from components.endpoint.request_log import set_request_log
from components.endpoint.server_states import server_states
from components.model_version.history import DefaultPeriod, history_of
from components.model_version.registry import (
    DEFAULT,
    LRO_TIMEOUT_SECONDS,
    find_model,
    list_versions,
    set_default,
    version_name,
    with_alias,
)
from components.vertex.api import VertexApi
from components.vertex.errors import VertexError
from components.vertex.resource_name import ResourceName
from pipelines.errors import ResourceError
from trainer.json_types import Json
from trainer.suggest import did_you_mean


@dataclass(frozen=True)
class Table:
    """Rows and their headings."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]


def short_name(resource_name: str) -> str:
    """Return `5@2` of `projects/P/locations/L/models/5@2`."""
    return str(ResourceName.from_name(resource_name))


def models_table(api: VertexApi) -> Table:
    """Return a row for each version of each model, oldest model first."""
    rows: list[tuple[str, ...]] = []
    for model in sorted(api.list_resources("models"), key=lambda model: model["createTime"]):
        for version in list_versions(api, ResourceName.from_name(model["name"]).unversioned):
            aliases = ", ".join(version.get("versionAliases", []))
            created = when(version, "versionCreateTime")
            rows.append((model["displayName"], version["versionId"], aliases, created))
    return Table(("MODEL", "VERSION", "ALIASES", "CREATED"), rows)


def model_history(api: VertexApi, name: str) -> list[DefaultPeriod]:
    """Return the times during which the versions of a model were its default, newest first."""
    return history_of(list_versions(api, model_name(api, name)))[::-1]


def history_table(periods: Sequence[DefaultPeriod]) -> Table:
    """Return a row for each time that a version became the default."""
    rows: list[tuple[str, ...]] = []
    for one in periods:
        why = f"{one.cause}: {one.reasons}" if one.reasons else one.cause
        since, until = _second(one.since), _second(one.until) or "now"
        rows.append((one.version, since, until, one.run or "-", why))
    return Table(("VERSION", "DEFAULT SINCE", "UNTIL", "RUN", "WHY"), rows)


def get_model(api: VertexApi, name: str) -> Json:
    """Return a model by display name or id, with `@version` or `@alias` for a version."""
    return api.get(model_name(api, name))


def delete_model(api: VertexApi, name: str, *, confirm_all: Callable[[int], bool]) -> str:
    """Delete a model, or one version of it (`mnist@2`); return what was deleted.

    Args:
        api: Project and location.
        name: `mnist` or `mnist@2`.
        confirm_all: Given the number of versions, returns whether to delete all of them.

    Raises:
        ResourceError: the version is the default, or the deletion of all was not confirmed.
    """
    base, at, _ = name.partition("@")
    if at:
        version = version_called(api, name)
        _refuse_default(list_versions(api, version.unversioned), version, base)
        full_name, method = version.name, ":deleteVersion"
    else:
        full_name, method = model_name(api, name), ""
        num_versions = len(list_versions(api, full_name))
        if num_versions > 1 and not confirm_all(num_versions):
            raise ResourceError(
                f"{name} has {num_versions} versions; delete one by name, such as {name}@1, or all "
                "with --all"
            )
    api.wait(api.delete(f"{full_name}{method}"), timeout_seconds=LRO_TIMEOUT_SECONDS)
    return short_name(full_name)


def set_default_version(api: VertexApi, name: str) -> str:
    """Make `mnist@2` or `mnist@previous` the default version; return it as `mnist@NUMBER`.

    Raises:
        ResourceError: the name has no version.
    """
    version = version_called(api, name)
    set_default(api, version)
    return f"{name.partition('@')[0]}@{version.version}"


def version_called(api: VertexApi, name: str) -> ResourceName:
    """Return the version that `mnist@2` or `mnist@previous` names.

    Raises:
        ResourceError: the name has no version.
    """
    if not name.partition("@")[2]:
        raise ResourceError(f"{name!r} names no version; write MODEL@VERSION, such as {name}@2")
    return version_name(api.get(model_name(api, name)))


def _refuse_default(versions: list[Json], version: ResourceName, model: str) -> None:
    default = with_alias(versions, DEFAULT)
    if default and version_name(default) == version:
        others = [one["versionId"] for one in versions if one is not default]
        hint = f"make another the default first: trainyard models set-default {model}@VERSION"
        if not others:
            hint = f"delete the model with it: trainyard models delete {model}"
        raise ResourceError(f"{model}@{version.version} is the default version; {hint}")


def model_name(api: VertexApi, name: str) -> str:
    """Return the resource name of a display name or id, with the `@version` kept."""
    base, at, version = name.partition("@")
    found = find_model(api, base) or f"{api.parent}/models/{base}"
    return f"{found}{at}{version}"


def list_endpoints(api: VertexApi) -> list[Json]:
    """Return each endpoint with the versions it serves, their traffic, and its state."""
    endpoints = list(api.list_resources("endpoints"))
    deployed = [one for endpoint in endpoints for one in endpoint.get("deployedModels", [])]
    names = {model: _name_of(api, model) for model in {one["model"] for one in deployed}}
    return [
        {
            "endpoint": endpoint["displayName"],
            "id": short_name(endpoint["name"]),
            "serves": [_served(one, endpoint, names) for one in endpoint.get("deployedModels", [])],
            "status": _serving_state(api, endpoint),
        }
        for endpoint in endpoints
    ]


def _served(deployed: Json, endpoint: Json, names: dict[str, str]) -> Json:
    """Return a deployed model as JSON, its version by the model's display name, `mnist@1`."""
    return {
        "version": f"{names[deployed['model']]}@{deployed.get('modelVersionId', '?')}",
        "model": deployed["model"],
        "deployedModelId": deployed["id"],
        "traffic": int(endpoint.get("trafficSplit", {}).get(deployed["id"], 0)),
    }


def _name_of(api: VertexApi, model: str) -> str:
    """Return a model's display name, or its id if it cannot be read, as in another project."""
    base = ResourceName.from_name(model).unversioned
    try:
        return str(api.get(base)["displayName"])
    except VertexError:
        return short_name(base)


def endpoints_table(endpoints: list[Json]) -> Table:
    """Return a row for each endpoint: versions, their shares of the traffic, and state."""
    rows: list[tuple[str, ...]] = []
    for one in endpoints:
        serves = ", ".join(f"{each['version']} {each['traffic']}%" for each in one["serves"])
        rows.append((one["endpoint"], one["id"], serves or "-", one["status"]))
    return Table(("ENDPOINT", "ID", "SERVES", "STATUS"), rows)


def _serving_state(api: VertexApi, endpoint: Json) -> str:
    """Return the states of the prediction servers; "-" on Vertex AI, which does not report them."""
    if not endpoint.get("deployedModels"):
        return "-"
    found = server_states(api, endpoint["name"]).values()
    states = [f"{one['state']}{_restarts(one)}" for one in found]
    return ", ".join(states) or "-"


def _restarts(status: Json) -> str:
    count = status.get("restarts", 0)
    return f" ({count} restart{'s' if count > 1 else ''})" if count else ""


def delete_endpoint(api: VertexApi, name: str) -> str:
    """Undeploy all models from an endpoint and delete it; return its id."""
    endpoint = endpoint_of(api, name)
    for deployed in endpoint.get("deployedModels", []):
        undeploy_version(api, api.get(endpoint["name"]), version_of(deployed))
    api.wait(api.delete(endpoint["name"]), timeout_seconds=LRO_TIMEOUT_SECONDS)
    return short_name(endpoint["name"])


def log_requests(api: VertexApi, name: str, *, rate: float, table: str = "") -> str:
    """Log a share of an endpoint's requests and responses, none at rate 0; return its name.

    Args:
        api: Project and location.
        name: Display name or id of the endpoint.
        rate: Share of the requests, 0 to 1.
        table: `bq://PROJECT.DATASET.TABLE`, for Vertex AI.
    """
    endpoint = endpoint_of(api, name)
    set_request_log(api, endpoint, rate=rate, table=table)
    return str(endpoint["displayName"])


def endpoint_of(api: VertexApi, name: str) -> Json:
    """Return the endpoint with a display name or id.

    Raises:
        VertexError: NOT_FOUND.
    """
    endpoints = list(api.list_resources("endpoints"))
    for endpoint in endpoints:
        if name in (endpoint["displayName"], short_name(endpoint["name"])):
            return endpoint
    names = [endpoint["displayName"] for endpoint in endpoints]
    hint, known = did_you_mean(name, names), ", ".join(names) or "none"
    message = f"no endpoint {name!r};{hint} endpoints: {known}"
    raise VertexError(code=404, status="NOT_FOUND", message=message)


def when(resource: Json, key: str = "createTime") -> str:
    """Return a timestamp of a resource in UTC, to the second: `2026-01-31 12:00:00`."""
    return _second(str(resource.get(key, "")))


def _second(time: str) -> str:
    return time[:19].replace("T", " ")
