"""Settings and limits of the prediction server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trainer import paths
from trainer.config.settings import Line, Name, Settings, setting

# Vertex AI's limit for a prediction request.
MAX_BODY_BYTES = 1_500_000


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """Limits that keep one client from exhausting the server.

    Attributes:
        body_bytes: of a request; a larger one gets 413.
        read_bytes: up to this size a body that is too large is read, and the connection kept.
        head_bytes: of a request's first line and headers, beside the first packet.
        read_seconds: from a request's first byte to its last; then it gets 408.
        idle_seconds: without a request; then the connection is closed.
        write_seconds: in which a client must read a response.
        linger_seconds: after a connection's last response, for the client to close it.
        pipelined_requests: of one connection that are handled at once.
        connections: at once; a further one replaces the one that has been idle for longest.
        queued_requests: that wait for the model; a further one gets 503.
        queued_bytes: of memory, estimated, of the requests that wait.
        queued_seconds: that a request may wait for the model; then it gets 504.
        batch_instances: of the requests that are predicted in one call; one request may have more.
    """

    body_bytes: int = MAX_BODY_BYTES
    read_bytes: int = 10 * MAX_BODY_BYTES
    head_bytes: int = 65_536
    read_seconds: float = 60.0
    idle_seconds: float = 120.0
    write_seconds: float = 60.0
    linger_seconds: float = 5.0
    pipelined_requests: int = 16
    connections: int = 500
    queued_requests: int = 512
    queued_bytes: int = 256_000_000
    queued_seconds: float = 60.0
    batch_instances: int = 128


_MAX_PORT = 65535
_MOST_BYTES = 1_000_000_000


PATH = {"pattern": "/.*", "form": "a path that starts with /"}


class ServerConfig(Settings):
    """Settings of the prediction server, from the environment."""

    storage_uri: Name = setting("folder of the exported model", alias="AIP_STORAGE_URI")
    host: Name = setting("address to listen on", "0.0.0.0", alias="AIP_HTTP_HOST")
    port: int = setting("port to listen on", 8080, ge=1, le=_MAX_PORT, alias="AIP_HTTP_PORT")
    health_route: Line = setting(
        "path of the health check", "/health", alias="AIP_HEALTH_ROUTE", **PATH
    )
    predict_route: Line = setting(
        "path of predictions", "/predict", alias="AIP_PREDICT_ROUTE", **PATH
    )
    access_log: Literal["off", "json"] = setting("log of requests", "off", alias="AIP_ACCESS_LOG")
    max_body_bytes: int = setting(
        "largest body of a request",
        MAX_BODY_BYTES,
        ge=1,
        le=_MOST_BYTES,
        alias="AIP_MAX_BODY_BYTES",
    )


def parse_environ(environ: Mapping[str, str]) -> ServerConfig:
    """Return the configuration that the AIP_* variables give; ConfigError names a wrong one.

    An empty variable is as one that is not set.
    """
    variables = [str(field.alias) for field in ServerConfig.model_fields.values()]
    given = {name: environ[name] for name in variables if environ.get(name)}
    if uri := given.get("AIP_STORAGE_URI"):
        given["AIP_STORAGE_URI"] = paths.uri(uri).rstrip("/")
    return ServerConfig.from_texts(given)
