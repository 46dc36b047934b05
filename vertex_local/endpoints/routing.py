"""Traffic of endpoints in memory: each change of the store takes effect when it is committed."""

import json
import random
from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate

from vertex_local import Json
from vertex_local.api.database.store import Store
from vertex_local.endpoints.deployments import key_of
from vertex_local.endpoints.predictions import source_of
from vertex_local.endpoints.request_log import sampling_rate


@dataclass(frozen=True, slots=True)
class Target:
    """Deployed model that gets traffic.

    Attributes:
        endpoint: Name of the endpoint.
        key: Key of its process in `Service.running`.
        id: Id of the deployed model.
        version_id: Version of its model.
        source: JSON fields about it, which follow the predictions in a response, with the brace
            that ends it.
    """

    endpoint: str
    key: str
    id: str
    version_id: str
    source: bytes


class Route:
    """Targets of an endpoint by their shares of the traffic."""

    def __init__(self, endpoint: Json) -> None:
        split = endpoint.get("trafficSplit", {})
        deployed = [one for one in endpoint.get("deployedModels", []) if split.get(one["id"], 0)]
        self.sampling_rate = sampling_rate(endpoint)
        self._targets = [_target(endpoint["name"], one) for one in deployed]
        self._shares = list(accumulate(split[one["id"]] for one in deployed))

    def choose(self) -> Target | None:
        """Return a target, drawn by the shares; None if no model gets traffic."""
        if len(self._targets) == 1:
            return self._targets[0]
        if not self._targets:
            return None
        return self._targets[bisect(self._shares, random.random() * self._shares[-1])]


class Routes:
    """Routes of all endpoints, by the path of their predictions."""

    def __init__(self, store: Store) -> None:
        self._by_path: dict[str, Route] = {}
        store.observe("endpoints", self._change)

    def find(self, path: str) -> Route | None:
        """Return the route of `/v1/projects/P/locations/L/endpoints/E:predict`."""
        return self._by_path.get(path)

    def _change(self, name: str, endpoint: Json | None) -> None:
        path = f"/v1/{name}:predict"
        if endpoint is None:
            self._by_path.pop(path, None)
        else:
            self._by_path[path] = Route(endpoint)


def _target(endpoint: str, deployed: Json) -> Target:
    source = json.dumps(source_of(deployed), ensure_ascii=False)
    return Target(
        endpoint=endpoint,
        key=key_of(endpoint, deployed["id"]),
        id=deployed["id"],
        version_id=deployed["modelVersionId"],
        source=b", " + source.removeprefix("{").encode() + b"\n",
    )
