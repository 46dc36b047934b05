"""Record of an endpoint: its traffic split, percentages by id of the deployed model."""

from vertex_local import Json
from vertex_local.errors import failed_precondition, invalid_argument

Split = dict[str, int]

WHOLE = 100
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
    if not others:
        return {}
    if requested:
        remaining = {
            key: value for key, value in requested.items() if (key, value) != (deployed_id, 0)
        }
        check(remaining, others)
        return remaining
    current: Split = endpoint.get("trafficSplit", {})
    if current.get(deployed_id, 0):
        raise failed_precondition(
            f"Deployed model {deployed_id} has {current[deployed_id]}% of the traffic; set a "
            f"trafficSplit over the others ({', '.join(others)}), or move its traffic first."
        )
    return {key: value for key, value in current.items() if key != deployed_id}
