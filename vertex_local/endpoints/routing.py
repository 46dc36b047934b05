"""Traffic of endpoints in memory: each change of the store takes effect when it is committed."""

import random
from dataclasses import dataclass

from vertex_local import Json
from vertex_local.api.database.store import Store
from vertex_local.endpoints.deployments import key_of, title_of
from vertex_local.endpoints.request_log import sampling_rate


@dataclass(frozen=True, slots=True)
class RoutedModel:
    """Deployed model that gets traffic.

    `key` is its process's in `Service.running`; `title` its name in messages; `source` has
    the fields about it that follow the predictions in a response.
    """

    endpoint: str
    key: str
    id: str
    title: str
    version_id: str
    source: dict[str, str]
    sampling_rate: float
    percentage: int


class Routes:
    """Targets of all endpoints, by the path of their predictions."""

    def __init__(self, store: Store) -> None:
        self._by_path: dict[str, list[RoutedModel]] = {}
        store.observe("endpoints", self._change)

    def choose(self, path: str) -> RoutedModel | None:
        """Return a target for `/v1/projects/P/locations/L/endpoints/E:predict`, drawn by the split.

        Returns None if there is no such endpoint, or no model gets traffic.
        """
        targets = self._by_path.get(path)
        if not targets or len(targets) == 1:
            return targets[0] if targets else None
        return random.choices(targets, [target.percentage for target in targets])[0]

    def _change(self, name: str, endpoint: Json | None) -> None:
        endpoint = endpoint or {}
        split = endpoint.get("trafficSplit", {})
        self._by_path[f"/v1/{name}:predict"] = [
            _target(endpoint, deployed, split[deployed["id"]])
            for deployed in endpoint.get("deployedModels", [])
            if split.get(deployed["id"])
        ]


def _target(endpoint: Json, deployed: Json, percentage: int) -> RoutedModel:
    source = {
        "deployedModelId": deployed["id"],
        "model": deployed["model"],
        "modelVersionId": deployed["modelVersionId"],
        "modelDisplayName": deployed["displayName"],
    }
    return RoutedModel(
        endpoint=endpoint["name"],
        key=key_of(endpoint["name"], deployed["id"]),
        id=deployed["id"],
        title=title_of(deployed),
        version_id=deployed["modelVersionId"],
        source=source,
        sampling_rate=sampling_rate(endpoint),
        percentage=percentage,
    )
