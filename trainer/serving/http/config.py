"""Settings of the prediction server."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trainer import paths
from trainer.config.flags import read_environ
from trainer.config.settings import setting
from trainer.serving.http.limits import MAX_BODY_BYTES

_MAX_PORT = 65535
_MOST_BYTES = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Settings of the prediction server, from the environment."""

    storage_uri: str = setting("folder of the exported model", variable="AIP_STORAGE_URI")
    host: str = setting("address to listen on", default="0.0.0.0", variable="AIP_HTTP_HOST")
    port: int = setting(
        "port to listen on", default=8080, at_least=1, at_most=_MAX_PORT, variable="AIP_HTTP_PORT"
    )
    health_route: str = setting(
        "path of the health check",
        default="/health",
        pattern="/.*",
        form="a path that starts with /",
        variable="AIP_HEALTH_ROUTE",
    )
    predict_route: str = setting(
        "path of predictions",
        default="/predict",
        pattern="/.*",
        form="a path that starts with /",
        variable="AIP_PREDICT_ROUTE",
    )
    access_log: str = setting(
        "log of requests", default="off", choices=("off", "json"), variable="AIP_ACCESS_LOG"
    )
    max_body_bytes: int = setting(
        "largest body of a request",
        default=MAX_BODY_BYTES,
        at_least=1,
        at_most=_MOST_BYTES,
        variable="AIP_MAX_BODY_BYTES",
    )


def parse_environ(environ: Mapping[str, str]) -> ServerConfig:
    """Return the configuration that the AIP_* variables give; ConfigError names a wrong one."""
    config = ServerConfig(**read_environ(ServerConfig, environ))
    return replace(config, storage_uri=paths.uri(config.storage_uri).rstrip("/"))
