"""Deployed models of an endpoint: find, deploy, give traffic to, undeploy."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from components.endpoint.traffic import Split, all_to, without
from components.model_version.registry import LRO_TIMEOUT_SECONDS
from components.vertex.api import VertexApi, VertexError
from components.vertex.creations import deploy_model
from components.vertex.resource_name import ResourceName
from trainer.json_types import Json

logger = logging.getLogger(__name__)

Move = Callable[[Split, str], Split]


def traffic_of(endpoint: Json) -> Split:
    """Return an endpoint's traffic split."""
    return {key: int(value) for key, value in endpoint.get("trafficSplit", {}).items()}


def is_serving(endpoint: Json) -> bool:
    """Whether a deployed model gets traffic."""
    deployed = {one["id"] for one in endpoint.get("deployedModels", [])}
    return any(value > 0 for key, value in traffic_of(endpoint).items() if key in deployed)


def version_of(deployed: Json) -> ResourceName:
    """Return the model version that a deployed model serves."""
    return ResourceName.from_name(deployed["model"]).with_version(
        deployed.get("modelVersionId", "")
    )


def find_deployed(endpoint: Json, version: ResourceName) -> str:
    """Return the id of the newest deployed model of a version; `""` if it is not deployed."""
    found = [one for one in endpoint.get("deployedModels", []) if version_of(one) == version]
    return str(max(found, key=lambda one: one.get("createTime", ""))["id"]) if found else ""


def deploy(api: VertexApi, endpoint: str, version: ResourceName, *, machine: str) -> str:
    """Deploy a version to one machine, without traffic if another has it; return the new id."""
    resources = {
        "machineSpec": {"machineType": machine},
        "minReplicaCount": 1,
        "maxReplicaCount": 1,
    }
    deployed = {"model": version.name, "dedicatedResources": resources}
    operation = deploy_model(api, endpoint, deployed)
    answer = api.wait(operation, timeout_seconds=LRO_TIMEOUT_SECONDS)
    deployed_id = str(answer["deployedModel"]["id"])
    logger.info("deployed %s to %s as %s", version, ResourceName.from_name(endpoint), deployed_id)
    return deployed_id


def undeploy(api: VertexApi, endpoint: str, *, deployed_id: str, split: Split) -> None:
    """Take a deployed model off its endpoint; `split` is the traffic of those that stay."""
    body: Json = {"deployedModelId": deployed_id, **({"trafficSplit": split} if split else {})}
    operation = api.post(f"{endpoint}:undeployModel", body)
    api.wait(operation, timeout_seconds=LRO_TIMEOUT_SECONDS)
    logger.info("undeployed %s from %s", deployed_id, ResourceName.from_name(endpoint))


def undeploy_version(api: VertexApi, endpoint: Json, version: ResourceName) -> bool:
    """Take every deployed model of a version off an endpoint; return whether there was one.

    The others get its traffic by their own shares; if none has any, the newest gets it all.
    """
    is_there = False
    while deployed_id := find_deployed(endpoint, version):
        is_there = True
        rest = [one for one in endpoint["deployedModels"] if one["id"] != deployed_id]
        heir = str(max(rest, key=lambda one: one.get("createTime", ""))["id"]) if rest else ""
        split = without(traffic_of(endpoint), deployed_id, heir=heir)
        undeploy(api, endpoint["name"], deployed_id=deployed_id, split=split)
        endpoint = {**endpoint, "deployedModels": rest, "trafficSplit": split}
    return is_there


def undeploy_idle(api: VertexApi, endpoint: str, *, keep: ResourceName) -> None:
    """Undeploy the versions of the same model that get no traffic, but for one."""
    body = api.get(endpoint)
    split = traffic_of(body)
    for deployed in body.get("deployedModels", []):
        version = version_of(deployed)
        if (
            version.unversioned == keep.unversioned
            and version != keep
            and not split.get(deployed["id"])
        ):
            undeploy(api, endpoint, deployed_id=deployed["id"], split={})


def set_traffic(api: VertexApi, endpoint: str, split: Split) -> None:
    """Set an endpoint's traffic split."""
    api.patch(f"{endpoint}?updateMask=trafficSplit", {"trafficSplit": split})


@contextmanager
def moved_traffic(
    api: VertexApi, endpoint: str, version: ResourceName, *, move: Move = all_to
) -> Iterator[int]:
    """Move traffic to a deployed version; move it back if the block fails.

    Args:
        api: Project and location.
        endpoint: Its resource name.
        version: A version that is deployed there.
        move: Returns the new split, from the present one and the id of the deployed version.

    Yields:
        The percentage that the version gets.

    Raises:
        VertexError: NOT_FOUND, the version is not deployed there.
    """
    body = api.get(endpoint)
    deployed_id = find_deployed(body, version)
    if not deployed_id:
        raise VertexError(
            code=404, status="NOT_FOUND", message=f"{version} is not deployed to {endpoint}"
        )
    before = traffic_of(body)
    split = move(before, deployed_id)
    set_traffic(api, endpoint, split)
    share = split.get(deployed_id, 0)
    logger.info("%s gets %d %% of the traffic", version, share)
    try:
        yield share
    except BaseException:
        if before:
            set_traffic(api, endpoint, before)
            logger.warning("the traffic is split as before: %s", before)
        raise
