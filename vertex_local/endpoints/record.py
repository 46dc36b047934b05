"""Record of an endpoint: its traffic split (percentages by id), machines of deployed models."""

from vertex_local import Json
from vertex_local.errors import failed_precondition, invalid_argument, not_found

Split = dict[str, int]

WHOLE = 100
RESOURCES = "dedicatedResources"
# Fields of them in MutateDeployedModelRequest.update_mask.
MUTABLE = ("minReplicaCount", "maxReplicaCount", "autoscalingMetricSpecs")
NEW = "0"  # DeployModelRequest.traffic_split: the model that is being deployed


def check(split: Split, deployed_ids: list[str]) -> None:
    """Raise INVALID_ARGUMENT unless the percentages of known ids add up to 100; {} is allowed."""
    for deployed_id, percentage in split.items():
        if deployed_id not in deployed_ids:
            known = ", ".join(deployed_ids) or "none"
            raise invalid_argument(
                f'trafficSplit names "{deployed_id}", which is not deployed here; allowed: {known}.'
            )
        if not 0 <= percentage <= WHOLE:
            raise invalid_argument(
                f'trafficSplit of "{deployed_id}" is {percentage}; it must be 0 to 100.'
            )
    if split and sum(split.values()) != WHOLE:
        raise invalid_argument(f"trafficSplit adds up to {sum(split.values())}; it must be 100.")


def after_deploy(endpoint: Json, *, new_id: str, requested: Split) -> Split:
    """Return the split after `new_id` is deployed.

    This is the requested split, with "0" for the new model; else the current one, or 100% for the
    first model.
    """
    others = [deployed["id"] for deployed in endpoint.get("deployedModels", [])]
    if requested:
        check(requested, [*others, NEW])
        return {new_id if key == NEW else key: value for key, value in requested.items()}
    current: Split = endpoint.get("trafficSplit", {})
    return current if others else {new_id: WHOLE}


def after_undeploy(endpoint: Json, *, deployed_id: str, requested: Split) -> Split:
    """Return the split after `deployed_id` is removed; `requested` may move its traffic.

    Raises:
        ApiError: FAILED_PRECONDITION if it still has traffic; INVALID_ARGUMENT.
    """
    others = [d["id"] for d in endpoint.get("deployedModels", []) if d["id"] != deployed_id]
    remaining = {key: value for key, value in requested.items() if (key, value) != (deployed_id, 0)}
    check(remaining, others)
    if requested or not others:
        return remaining
    current: Split = endpoint.get("trafficSplit", {})
    if current.get(deployed_id, 0):
        raise failed_precondition(
            f"Deployed model {deployed_id} has {current[deployed_id]}% of the traffic; set a "
            f"trafficSplit over the others ({', '.join(others)}), or move its traffic first."
        )
    return {key: value for key, value in current.items() if key != deployed_id}


def with_resources(deployed: Json) -> Json:
    """Return a deployed model with the defaults of its dedicated resources, which are only kept.

    Raises:
        ApiError: INVALID_ARGUMENT.
    """
    resources = deployed.get(RESOURCES)
    if resources is None:
        return deployed
    least = resources.get("minReplicaCount", 0)
    most = resources.get("maxReplicaCount", least)
    if not 1 <= least <= most:
        raise invalid_argument(
            f"{RESOURCES}: minReplicaCount is {least}, maxReplicaCount {most}; the first must be at"
            " least 1, and the second not below it."
        )
    return {**deployed, RESOURCES: {**resources, "maxReplicaCount": most}}


def mutate(endpoint: Json, wanted: Json, *, mask: str) -> Json:
    """Change fields of a deployed model's resources as in `wanted`; return the model.

    Raises:
        ApiError: NOT_FOUND or INVALID_ARGUMENT.
    """
    names = {path.removeprefix(f"{RESOURCES}.") for path in mask.split(",")}
    if not names <= {*MUTABLE}:
        raise invalid_argument(f"updateMask is {mask!r}; allowed are {MUTABLE} of {RESOURCES}.")
    deployed = {model["id"]: model for model in endpoint.get("deployedModels", [])}
    if (key := wanted.get("id")) not in deployed:
        raise not_found(f'deployedModel.id "{key}" of {endpoint["name"]}')
    after = wanted.get(RESOURCES, {})
    resources = {**deployed[key].get(RESOURCES, {}), **{name: after.get(name) for name in names}}
    changed = {name: value for name, value in resources.items() if value is not None}
    result = with_resources({**deployed[key], RESOURCES: changed})
    endpoint["deployedModels"] = list({**deployed, key: result}.values())
    return result
