"""Deployed models of an endpoint, and their traffic."""

import contextlib
import logging
from collections.abc import Callable, Iterator

from components.endpoint.traffic import Split, all_to, restored, without
from components.model_version.registry import (
    PREVIOUS,
    is_candidate,
    list_versions,
    version_name,
)
from components.shared.text.json_object import present
from components.shared.vertex.api import VertexApi
from components.shared.vertex.creations import await_operations, deploy_model, new_deployed_id
from components.shared.vertex.errors import VertexError
from components.shared.vertex.resource_name import ResourceName
from trainer import Json

logger = logging.getLogger(__name__)

CANCEL_TIMEOUT_SECONDS = 60

# Fields of `dedicatedResources` that a deployed model can change.
SCALED = ("minReplicaCount", "maxReplicaCount", "autoscalingMetricSpecs")

Move = Callable[[Split, str], Split]


def deployed_in(endpoint: Json) -> list[Json]:
    """Return the deployed models of an endpoint, which Vertex AI leaves out if there are none."""
    found: list[Json] = endpoint.get("deployedModels", [])
    return found


def traffic_of(endpoint: Json) -> Split:
    """Return the traffic split of an endpoint."""
    return {key: int(value) for key, value in endpoint.get("trafficSplit", {}).items()}


def is_serving(endpoint: Json) -> bool:
    """Return whether a deployed model has traffic."""
    deployed = {model["id"] for model in deployed_in(endpoint)}
    return any(value > 0 for key, value in traffic_of(endpoint).items() if key in deployed)


def version_of(deployed: Json) -> ResourceName:
    """Return the model version that a deployed model serves."""
    return ResourceName.from_name(deployed["model"]).with_version(
        deployed.get("modelVersionId", "")
    )


def find_deployed(endpoint: Json, version: ResourceName) -> str:
    """Return the id of the newest deployed model of a version, "" if it is not deployed."""
    models = deployed_in(endpoint)
    return _newest([model for model in models if version_of(model) == version])


def resources_beside(endpoint: Json, version: ResourceName) -> Json:
    """Return `dedicatedResources` of the same model's version with the most traffic, or {}."""
    models = deployed_in(endpoint)
    same = [model for model in models if version_of(model).unversioned == version.unversioned]
    return dict(busiest(endpoint, same).get("dedicatedResources", {}))


def busiest(endpoint: Json, models: list[Json]) -> Json:
    """Return the deployed model with the most traffic among some, {} without one."""
    split = traffic_of(endpoint)
    return max(models, key=lambda model: split.get(model["id"], 0), default={})


def deploy(api: VertexApi, endpoint: str, version: ResourceName, *, resources: Json) -> str:
    """Deploy a version and return the id; it gets no traffic if another has it.

    `resources` are its `dedicatedResources`. If it fails or is interrupted, it is undone.
    """
    deployed_id = new_deployed_id()
    deployed = {"id": deployed_id, "model": version.name, "dedicatedResources": resources}
    operation: Json = {}
    try:
        operation = deploy_model(api, endpoint, deployed)
        api.wait(operation)
    except BaseException as error:
        if operation:
            _cancel(api, operation)
        elif not isinstance(error, VertexError):  # the request may have been received
            with contextlib.suppress(VertexError, TimeoutError):
                await_operations(api, endpoint)
        undeploy_own(api, endpoint, deployed_id)
        raise
    logger.info("deployed %s to %s as %s", version, ResourceName.from_name(endpoint), deployed_id)
    return deployed_id


def scale(api: VertexApi, endpoint: Json, version: ResourceName, resources: Json) -> None:
    """Give a version, if it is deployed, the replicas and autoscaling targets of `resources`.

    A target that these lack stays as it is. The machine cannot be changed; a warning says so.
    """
    for deployed in deployed_in(endpoint):
        current = deployed.get("dedicatedResources")
        if version_of(deployed) != version or not current:
            continue
        machine = current.get("machineSpec", {})
        if machine != machine | resources["machineSpec"]:
            logger.warning("%s stays on the machine that it has, %s", version, machine)
        wanted = {name: resources[name] for name in SCALED if name in resources}
        if changed := {k: value for k, value in wanted.items() if value != current.get(k)}:
            body = {
                "deployedModel": {"id": deployed["id"], "dedicatedResources": changed},
                "updateMask": ",".join(f"dedicatedResources.{name}" for name in changed),
            }
            operation = api.post(f"{endpoint['name']}:mutateDeployedModel", body)
            api.wait(operation)
            logger.info("%s has %s", version, changed)


def _cancel(api: VertexApi, operation: Json) -> None:
    """Cancel an operation unless it is done, and wait for its end; a failure is ignored."""
    if operation.get("done"):
        return
    with contextlib.suppress(VertexError, TimeoutError):
        if not api.get(operation["name"]).get("done"):
            api.post(f"{operation['name']}:cancel", {})
            api.wait(operation, timeout_seconds=CANCEL_TIMEOUT_SECONDS)


def undeploy(
    api: VertexApi, endpoint: str, *, deployed_id: str, split: Split, is_awaited: bool = True
) -> None:
    """Undeploy a model; `split` is the traffic of the models that stay.

    It gets no request once the undeployment has begun. With `is_awaited`, wait until its server
    has ended, which takes minutes on Vertex AI.
    """
    body = present({"deployedModelId": deployed_id, "trafficSplit": split})
    operation = api.post(f"{endpoint}:undeployModel", body)
    if is_awaited:
        api.wait(operation)
    logger.info("undeployed %s from %s", deployed_id, ResourceName.from_name(endpoint))


def undeploy_version(
    api: VertexApi, endpoint: Json, version: ResourceName, *, is_awaited: bool = True
) -> bool:
    """Undeploy every deployed model of a version; return whether there was one.

    The others get its traffic in proportion to their own; if none has any, the newest gets it all.
    """
    was_deployed = False
    while deployed_id := find_deployed(endpoint, version):
        was_deployed = True
        endpoint = _undeployed(api, endpoint, deployed_id, is_awaited=is_awaited)
    return was_deployed


def undeploy_own(api: VertexApi, endpoint: str, deployed_id: str) -> None:
    """Undeploy a model that this process deployed, if it is there.

    Another process may have deployed the same version meanwhile, which stays.
    """
    body = api.get(endpoint)
    if any(model["id"] == deployed_id for model in deployed_in(body)):
        _undeployed(api, body, deployed_id)


def _undeployed(
    api: VertexApi, endpoint: Json, deployed_id: str, *, is_awaited: bool = True
) -> Json:
    """Undeploy a model, whose traffic the others get; return the endpoint after it."""
    rest = [model for model in endpoint["deployedModels"] if model["id"] != deployed_id]
    split = without(traffic_of(endpoint), deployed_id, heir=_newest(rest))
    undeploy(api, endpoint["name"], deployed_id=deployed_id, split=split, is_awaited=is_awaited)
    return {**endpoint, "deployedModels": rest, "trafficSplit": split}


def delete_endpoint(api: VertexApi, endpoint: Json) -> None:
    """Undeploy all models from an endpoint and delete it."""
    for deployed in deployed_in(endpoint):
        undeploy_version(api, api.get(endpoint["name"]), version_of(deployed))
    api.wait(api.delete(endpoint["name"]))


def undeploy_idle(
    api: VertexApi, endpoint: str, *, keep: ResourceName, keep_previous: bool = False
) -> None:
    """Undeploy the versions of a model that have no traffic, except `keep` and candidates.

    A second server of `keep` goes as well, such as another process's that promoted it in the same
    moment. A candidate belongs to another run, which is about to release it or to undeploy it. With
    `keep_previous` the version with the alias `previous` is kept too, for a fast rollback.
    """
    body = api.get(endpoint)
    split = traffic_of(body)
    idle = [
        deployed_model
        for deployed_model in deployed_in(body)
        if not split.get(deployed_model["id"])
    ]
    models = {version_of(deployed).unversioned for deployed in idle}
    for other in sorted(models - {keep.unversioned}, key=str):
        logger.warning(
            "the model %s stays deployed on this endpoint, without traffic; it costs a server until"
            " `trainyard endpoints undeploy`",
            other,
        )
    if keep.unversioned not in models:
        return
    replaced = {
        version_name(version)
        for version in list_versions(api, keep.unversioned)
        if not is_candidate(version)
        and not (keep_previous and PREVIOUS in version.get("versionAliases", []))
    }
    is_served = any(
        split.get(deployed["id"]) and version_of(deployed) == keep
        for deployed in body["deployedModels"]
    )
    unused = replaced | {keep} if is_served else replaced - {keep}
    for deployed in idle:
        if version_of(deployed) in unused:
            undeploy(api, endpoint, deployed_id=deployed["id"], split={})


def server_states(api: VertexApi, endpoint: str) -> dict[str, Json]:
    """Return `state`, `restarts` and more of each server, by the id of the deployed model.

    Only the local service reports them; the dict is empty on Vertex AI, which returns 404.
    """
    servers = api.find(f"{endpoint}/deployedModels") or {}
    return {str(server["id"]): server for server in deployed_in(servers)}


def set_traffic(api: VertexApi, endpoint: str, split: Split) -> None:
    """Set the traffic split of an endpoint."""
    api.patch(f"{endpoint}?updateMask=trafficSplit", {"trafficSplit": split})


@contextlib.contextmanager
def moved_traffic(
    api: VertexApi, endpoint: str, version: ResourceName, *, move: Move = all_to
) -> Iterator[int]:
    """Move traffic to a deployed version; move it back if the block fails.

    If the split was changed meanwhile, only the version's own share goes back to the others.
    `move` returns the new split, given the current one and the id of the deployed model.

    Yields:
        The percentage that the version gets.

    Raises:
        VertexError: NOT_FOUND, the version is not deployed to the endpoint.
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
        try:
            _restore_traffic(api, endpoint, deployed_id=deployed_id, before=before, moved=split)
        except VertexError as error:  # the error of the block is raised, the cause of both
            logger.error("could not restore the traffic split %s: %s", before, error)
        raise


def _restore_traffic(
    api: VertexApi, endpoint: str, *, deployed_id: str, before: Split, moved: Split
) -> None:
    """Take back the share that a deployed model got in `moved`, as far as it still has it."""
    body = api.get(endpoint)
    deployed = {model["id"] for model in deployed_in(body)}
    now = traffic_of(body)
    kept = {key: value for key, value in before.items() if key in deployed}
    split = restored(now, deployed_id, before=kept, moved=moved)
    if split != now:
        set_traffic(api, endpoint, split)
        logger.warning("restored the traffic split: %s", split)


def _newest(deployed: list[Json]) -> str:
    newest = max(deployed, key=lambda model: model.get("createTime", ""), default={"id": ""})
    return str(newest["id"])
