"""Versions of the only model of a service."""

from components.shared.vertex.api import VertexApi
from components.shared.vertex.resource_name import ResourceName
from trainer import Json


def upload_version(api: VertexApi, model: Json) -> ResourceName:
    """Upload a version, of the only model if there is one."""
    parents = [one["name"] for one in api.list_resources("models")]
    body = {"model": model, **({"parentModel": parents[0]} if parents else {})}
    answer = api.wait(api.post(f"{api.parent}/models:upload", body), timeout_seconds=30)
    return ResourceName.from_name(answer["model"]).with_version(answer["modelVersionId"])


def versions(api: VertexApi) -> dict[str, Json]:
    """Return the model's versions by number."""
    [model] = api.list_resources("models")
    found = api.list_resources(f"{model['name'].partition('@')[0]}:listVersions")
    return {one["versionId"]: one for one in found}


def aliases(api: VertexApi) -> dict[str, list[str]]:
    """Return the aliases of each version, sorted."""
    return {number: sorted(one["versionAliases"]) for number, one in versions(api).items()}


def shares(api: VertexApi) -> dict[str, int]:
    """Return the traffic of each version that the only endpoint has deployed."""
    [endpoint] = api.list_resources("endpoints")
    split = endpoint.get("trafficSplit", {})
    deployed = endpoint.get("deployedModels", [])
    return {one["modelVersionId"]: split.get(one["id"], 0) for one in deployed}
