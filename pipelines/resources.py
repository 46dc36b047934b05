"""Reads and changes single resources: models and endpoints (jobs: pipelines/jobs.py)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.model_version.registry import (
    LRO_TIMEOUT_SECONDS,
    VersionName,
    find_model,
    list_versions,
    set_default,
    undeploy,
)
from components.vertex_api import PREDICT_TIMEOUT_SECONDS, Json, VertexApi, VertexError
from pipelines.report import short_name


class ResourceError(ValueError):
    """No such resource, or a bad argument; the message says what there is."""


@dataclass(frozen=True)
class Table:
    """Rows to print under headings."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]


def models_table(api: VertexApi) -> Table:
    """Models with their versions, oldest first."""
    rows: list[tuple[str, ...]] = []
    for model in sorted(api.list_resources("models"), key=lambda model: model["createTime"]):
        for version in list_versions(api, model["name"].partition("@")[0]):
            aliases = ", ".join(version.get("versionAliases", []))
            created = when(version, "versionCreateTime")
            rows.append((model["displayName"], version["versionId"], aliases, created))
    return Table(("MODEL", "VERSION", "ALIASES", "CREATED"), rows)


def get_model(api: VertexApi, name: str) -> Json:
    """A model by display name or id, with `@version` or `@alias` if another than the default."""
    return api.get(model_name(api, name))


def delete_model(api: VertexApi, name: str) -> str:
    """Deletes a model, or one version of it (`mnist@2`); answers what was deleted."""
    full_name = model_name(api, name)
    if "@" not in full_name:
        operation = api.delete(full_name)
    else:
        full_name = _version_of(api, full_name).name
        operation = api.delete(f"{full_name}:deleteVersion")
    api.wait(operation, timeout_seconds=LRO_TIMEOUT_SECONDS)
    return short_name(full_name)


def set_default_version(api: VertexApi, name: str) -> str:
    """Makes `mnist@2`, or `mnist@previous`, the default version; answers which one that is.

    Raises:
        ResourceError: the name has no version.
    """
    if not name.partition("@")[2]:
        raise ResourceError(f"{name!r} names no version; write MODEL@VERSION, as {name}@2")
    version = _version_of(api, model_name(api, name))
    set_default(api, version)
    return f"{name.partition('@')[0]}@{version.version}"


def _version_of(api: VertexApi, full_name: str) -> VersionName:
    """The version by its number where the name may say it by an alias."""
    return VersionName(full_name.partition("@")[0], api.get(full_name)["versionId"])


def model_name(api: VertexApi, name: str) -> str:
    """The resource name for a display name or id, with its `@version` kept."""
    base, at, version = name.partition("@")
    found = find_model(api, base) or f"{api.parent}/models/{base}"
    return f"{found}{at}{version}"


def endpoints_table(api: VertexApi) -> Table:
    """Endpoints with what is deployed to each and its share of the traffic."""
    rows: list[tuple[str, ...]] = []
    for endpoint in api.list_resources("endpoints"):
        split = endpoint.get("trafficSplit", {})
        serving = ", ".join(
            f"{short_name(deployed['model'])}@{deployed.get('modelVersionId', '?')} "
            f"{split.get(deployed['id'], 0)}%"
            for deployed in endpoint.get("deployedModels", [])
        )
        rows.append((endpoint["displayName"], short_name(endpoint["name"]), serving or "-"))
    return Table(("ENDPOINT", "ID", "SERVES"), rows)


def predict(api: VertexApi, name: str, instances: list[Any]) -> list[Any]:
    """Predictions of an endpoint, by display name or id."""
    answer = api.post(
        f"{_endpoint_name(api, name)}:predict",
        {"instances": instances},
        timeout_seconds=PREDICT_TIMEOUT_SECONDS,
    )
    predictions: list[Any] = answer["predictions"]
    return predictions


def read_instances(path: Path) -> list[Any]:
    """Instances from a JSON file: a list, or an object with the key `instances`."""
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise ResourceError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ResourceError(f"{path} is not JSON: {error}") from error
    instances = content.get("instances") if isinstance(content, dict) else content
    if not isinstance(instances, list) or not instances:
        raise ResourceError(f'{path} must hold a list of instances, or {{"instances": [...]}}')
    return instances


def delete_endpoint(api: VertexApi, name: str) -> str:
    """Undeploys everything from an endpoint and deletes it; answers its id."""
    full_name = _endpoint_name(api, name)
    for deployed in api.get(full_name).get("deployedModels", []):
        undeploy(api, full_name, deployed_model_id=deployed["id"])
    api.wait(api.delete(full_name), timeout_seconds=LRO_TIMEOUT_SECONDS)
    return short_name(full_name)


def _endpoint_name(api: VertexApi, name: str) -> str:
    endpoints = list(api.list_resources("endpoints"))
    for endpoint in endpoints:
        if name in (endpoint["displayName"], short_name(endpoint["name"])):
            return str(endpoint["name"])
    known = ", ".join(endpoint["displayName"] for endpoint in endpoints) or "none"
    raise VertexError(code=404, status="NOT_FOUND", message=f"no endpoint {name!r}; there: {known}")


def when(resource: Json, key: str = "createTime") -> str:
    """A moment of a resource in UTC, to the second: `2026-01-31 12:00:00`."""
    return str(resource.get(key, ""))[:19].replace("T", " ")
