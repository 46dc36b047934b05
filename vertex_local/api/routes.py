"""Routes of the resource modules, and the argument of their handlers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import orjson

from vertex_local import Json
from vertex_local.api.fields import camel_case
from vertex_local.api.service import Service
from vertex_local.errors import invalid_argument


@dataclass(frozen=True)
class Message:
    """Body that need not be JSON, with the fields of its header that describe it."""

    data: bytes = b""
    fields: dict[str, str] = field(default_factory=dict)
    status: int = 200

    def json(self) -> Json:
        """Return the body, a JSON object; an empty body is {}.

        Raises:
            ApiError: INVALID_ARGUMENT.
        """
        try:
            body = orjson.loads(self.data) if self.data else {}
        except ValueError as error:
            raise invalid_argument(f"The body is not valid JSON: {error}") from None
        if not isinstance(body, dict):
            raise invalid_argument(f"The body must be a JSON object, not {type(body).__name__}.")
        return body


@dataclass(frozen=True)
class Call:
    """Request: values from the path and the query string, and the JSON body.

    A raw route has its body in `message` instead.
    """

    args: dict[str, str]
    query: dict[str, str] = field(default_factory=dict)
    body: Json = field(default_factory=dict)
    message: Message = field(default_factory=Message)

    @property
    def parent(self) -> str:
        """`projects/P/locations/L`."""
        return f"projects/{self.args['project']}/locations/{self.args['location']}"

    def name(self, collection: str) -> str:
        """Return the name of the resource in the path: `projects/P/locations/L/COLLECTION/ID`."""
        return f"{self.parent}/{collection}/{self.args['id']}"

    def update_mask(self, allowed: tuple[str, ...]) -> list[str]:
        """Return the fields of `updateMask`, in camelCase; all for `*`.

        Raises:
            ApiError: INVALID_ARGUMENT if it is missing or names a field that cannot be changed.
        """
        mask = [camel_case(field.strip()) for field in self.query.get("updateMask", "").split(",")]
        if mask == ["*"]:  # https://google.aip.dev/134
            return [*allowed]
        for name in mask:
            if name not in allowed:
                raise invalid_argument(
                    f'updateMask field "{name}" cannot be updated here; allowed are '
                    f"{', '.join(allowed)}."
                )
        return mask


Handler = Callable[[Service, Call], Json]
RawHandler = Callable[[Service, Call], Message]


@dataclass(frozen=True)
class Route:
    """HTTP method, werkzeug pattern and handler; `/v1/` precedes a pattern without a leading `/`.

    A variable of the pattern matches `[a-zA-Z0-9_-]+`, a model's with a version `5@2`, so its value
    may name a folder; for other values the response is 400.
    """

    method: str
    pattern: str
    handler: Handler


@dataclass(frozen=True)
class RawRoute(Route):
    """Route whose requests and responses need not be JSON; `kept` names their header fields."""

    handler: RawHandler  # type: ignore[assignment]
    kept: tuple[str, ...] = ("Content-Type",)


def routes_of(collection: str, handlers: Mapping[str, Handler]) -> list[Route]:
    """Return the routes of a collection; a key is a method and the rest of a path: `GET /<id>`."""
    routes = []
    for key, handler in handlers.items():
        method, _, path = key.partition(" ")
        pattern = f"projects/<project>/locations/<location>/{collection}{path}"
        routes.append(Route(method, pattern, handler))
    return routes
