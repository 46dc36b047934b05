"""Finds a model in the registry and promotes one of its versions."""

import logging
from dataclasses import dataclass

from components.vertex_api import Json, VertexApi

logger = logging.getLogger(__name__)

LRO_TIMEOUT_SECONDS = 1800


@dataclass(frozen=True)
class VersionName:
    """A model version's resource name, `projects/P/locations/L/models/M@VERSION`."""

    model: str
    version: str

    @classmethod
    def from_name(cls, name: str) -> "VersionName":
        """Splits a resource name; one without a version is an error."""
        model, at, version = name.partition("@")
        if not at:
            raise ValueError(f"{name!r} names no version; expected projects/…/models/M@VERSION")
        return cls(model, version)

    @property
    def name(self) -> str:
        """The resource name."""
        return f"{self.model}@{self.version}"

    def __str__(self) -> str:
        return f"{self.model.rsplit('/', 1)[-1]}@{self.version}"


def find_model(api: VertexApi, display_name: str) -> str:
    """The resource name, without a version, of the oldest model of that name; `""` if none is."""
    models = list(api.list_resources("models", filter=f'display_name="{display_name}"'))
    if not models:
        return ""
    return str(min(models, key=lambda model: model["createTime"])["name"]).partition("@")[0]


def list_versions(api: VertexApi, model: str) -> list[Json]:
    """Every version of a model, oldest first."""
    versions = api.list_resources(f"{model}:listVersions")
    return sorted(versions, key=lambda version: int(version["versionId"]))


def promote(api: VertexApi, version: VersionName, *, endpoint: str) -> None:
    """Moves `default` to `version` and `previous` to the one before; drops what it replaces.

    Deployed models of the same model that get no traffic any more are undeployed.
    """
    set_default(api, version)
    _undeploy_replaced(api, version, endpoint=endpoint)


def set_default(api: VertexApi, version: VersionName) -> None:
    """Moves `default` to `version` and `previous` to the one that was the default before."""
    holder = _holder_of_default(list_versions(api, version.model))
    if holder and holder != version.version:
        add_alias(api, VersionName(version.model, holder), "previous")
    add_alias(api, version, "default")
    logger.info("%s is now the default version (before: %s)", version, holder or "none")


def add_alias(api: VertexApi, version: VersionName, alias: str) -> None:
    """Gives `alias` to a version; the version that had it loses it."""
    api.post(f"{version.name}:mergeVersionAliases", {"versionAliases": [alias]})


def undeploy(
    api: VertexApi, endpoint: str, *, deployed_model_id: str, traffic: dict[str, int] | None = None
) -> None:
    """Takes a deployed model off its endpoint; `traffic` says who gets its share."""
    body: Json = {"deployedModelId": deployed_model_id}
    if traffic:
        body["trafficSplit"] = traffic
    operation = api.post(f"{endpoint}:undeployModel", body)
    api.wait(operation, timeout_seconds=LRO_TIMEOUT_SECONDS)
    logger.info("undeployed %s from %s", deployed_model_id, endpoint.rsplit("/", 1)[-1])


def _holder_of_default(versions: list[Json]) -> str:
    holders = (v["versionId"] for v in versions if "default" in v.get("versionAliases", []))
    return next(holders, "")


def _undeploy_replaced(api: VertexApi, version: VersionName, *, endpoint: str) -> None:
    body = api.get(endpoint)
    for deployed in body.get("deployedModels", []):
        is_ours = deployed["model"].partition("@")[0] == version.model
        is_idle = not body.get("trafficSplit", {}).get(deployed["id"])
        if is_ours and is_idle and deployed.get("modelVersionId") != version.version:
            undeploy(api, endpoint, deployed_model_id=deployed["id"])
