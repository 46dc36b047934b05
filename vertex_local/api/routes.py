"""What a resource module gives the server: its routes, and the call that a handler receives."""

from collections.abc import Callable
from dataclasses import dataclass, field

from vertex_local.api.service import Service
from vertex_local.json_types import Json


@dataclass(frozen=True)
class Call:
    """One request: values from the path, from the query string, and the JSON body."""

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
    """A method and a werkzeug pattern below `/v1/`; one that starts with `/` is taken as it is.

    `<name>` matches `[a-zA-Z0-9_-]+`, so a value may be used as a folder's name; anything else is
    answered with 400. `<name>` called `model` may carry a version: `5@2`, `5@default`.
    """

    method: str
    pattern: str
    handler: Handler
