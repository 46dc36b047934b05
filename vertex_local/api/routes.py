"""Routes of the resource modules, and the argument of their handlers."""

from collections.abc import Callable
from dataclasses import dataclass, field

from vertex_local.api.service import Service
from vertex_local.json_types import Json


@dataclass(frozen=True)
class Call:
    """Request: values from the path and the query string, and the JSON body."""

    args: dict[str, str]
    query: dict[str, str] = field(default_factory=dict)
    body: Json = field(default_factory=dict)

    @property
    def parent(self) -> str:
        """`projects/P/locations/L`."""
        return f"projects/{self.args['project']}/locations/{self.args['location']}"


Handler = Callable[[Service, Call], Json]


@dataclass(frozen=True)
class Route:
    """HTTP method, werkzeug pattern and handler; `/v1/` precedes a pattern without a leading `/`.

    A variable of the pattern matches `[a-zA-Z0-9_-]+`, so its value may name a folder; for other
    values the response is 400. The variable `<model>` may have a version: `5@2`, `5@default`.
    """

    method: str
    pattern: str
    handler: Handler
