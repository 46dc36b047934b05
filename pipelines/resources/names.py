"""Names and times of resources, and the resources that users' names stand for."""

import getpass
import os
import platform
from collections.abc import Sequence

from components.model_version.registry import find_model, list_versions
from components.shared.text.value_text import first_of
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.resource_name import ResourceName
from pipelines.errors import ResourceError
from trainer import Json
from trainer.errors import did_you_mean
from trainer.references import valid_name

MAX_NAMES = 10  # of resources in a message


def short_name(resource_name: str) -> str:
    """Return `5@2` of `projects/P/locations/L/models/5@2`."""
    return str(ResourceName.from_name(resource_name))


def model_name(api: VertexApi, name: str) -> str:
    """Return the resource name of a display name, a run's folder or an id.

    Raises:
        ResourceError: the name has a version, of which there is no choice.
        VertexError: NOT_FOUND.
    """
    if "@" in name:
        raise ResourceError(f"{name!r} names a version; give the model, {name.partition('@')[0]}")
    if found := find_model(api, name) or find_model(api, valid_name(name)):
        return found
    models = list(api.list_resources("models"))
    if name not in {short_name(model["name"]) for model in models}:
        raise not_found("model", name, [model["displayName"] for model in models])
    return f"{api.parent}/models/{name}"


def get_model(api: VertexApi, name: str) -> Json:
    """Return a model by display name or id, with `@version` or `@alias` for a version.

    Raises:
        VertexError: NOT_FOUND; names the models, or the versions of the model, that exist.
    """
    base, at, version = name.partition("@")
    model = model_name(api, base)
    if found := api.find(f"{model}{at}{version}"):
        return found
    known = [
        ", ".join([entry["versionId"], *entry.get("versionAliases", [])])
        for entry in list_versions(api, model)
    ]
    message = f"{base} has no version {version!r}; versions: {'; '.join(known)}"
    raise VertexError(code=404, status="NOT_FOUND", message=message)


def get_version(api: VertexApi, name: str) -> Json:
    """Return the version that `mnist@2` or `mnist@previous` names.

    Raises:
        ResourceError: the name has no version.
    """
    base, _, version = name.partition("@")
    if not version:
        raise ResourceError(f"{name!r} names no version; write {base}@VERSION, or {base}@default")
    return get_model(api, name)


def version_text(version: Json) -> str:
    """Return a version as `mnist@2`."""
    return f"{version['displayName']}@{version['versionId']}"


def shown_model(api: VertexApi, model: str) -> str:
    """Return a model's display name, or its id if it cannot be read, as in another project."""
    base = ResourceName.from_name(model).unversioned
    try:
        return str(api.get(base)["displayName"])
    except VertexError:
        return short_name(base)


def endpoint_of(api: VertexApi, name: str) -> Json:
    """Return the endpoint with a display name or id.

    Raises:
        VertexError: NOT_FOUND; of a model that no endpoint serves, with the command that does.
    """
    endpoints = list(api.list_resources("endpoints"))
    for endpoint in endpoints:
        if name in (endpoint["displayName"], short_name(endpoint["name"])):
            return endpoint
    serve = f"; to serve the model: trainyard endpoints deploy {name}@default"
    hint = serve if find_model(api, name) else ""
    raise not_found("endpoint", name, [endpoint["displayName"] for endpoint in endpoints], hint)


def not_found(kind: str, name: str, names: Sequence[str], hint: str = "") -> VertexError:
    """Return the error that no resource has a name, with those that exist."""
    existing = f"{kind}s: {first_of(names, MAX_NAMES) or 'none'}{hint}"
    message = f"no {kind} {name!r};{did_you_mean(name, names)} {existing}"
    return VertexError(code=404, status="NOT_FOUND", message=message)


def when(resource: Json, key: str = "createTime") -> str:
    """Return a timestamp of a resource in UTC, to the second: `2026-01-31 12:00:00`."""
    return second(str(resource.get(key, "")))


def second(time: str) -> str:
    """Return a timestamp of the API to the second: `2026-01-31 12:00:00`."""
    return time[:19].replace("T", " ")


def duration(seconds: float) -> str:
    """Return a duration in its largest unit: `3d`, `5h`, `20m`."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"


def this_person() -> str:
    """Return the user of this command as `ann@desk`, in a text without spaces."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in a container
        user = f"uid-{os.getuid()}"
    return "-".join(f"{user}@{platform.node() or 'unknown'}".split())
