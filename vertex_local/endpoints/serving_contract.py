"""Command and environment of a prediction server, by Vertex AI's contract.

https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements
Google's prebuilt images bring the server of their framework themselves:
https://cloud.google.com/vertex-ai/docs/predictions/pre-built-containers
"""

import functools
import importlib.util
import logging
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from vertex_local import Json
from vertex_local.errors import failed_precondition
from vertex_local.machine.docker_engine import Engine
from vertex_local.machine.ports import LOOPBACK
from vertex_local.processes import group as processes

logger = logging.getLogger(__name__)

PREBUILT = re.compile(r".+/prediction/(?P<name>[a-z]+)[0-9]?-[a-z]+\.[^/]+")
# By the first word of the image's name.
MODULES = {"tf": "tensorflow", "xgboost": "xgboost", "sklearn": "sklearn"}
UNPICKLING = "VERTEX_LOCAL_UNPICKLING"  # variable of a service that loads pickled models
PREBUILT_SERVER = "vertex_local.endpoints.prebuilt_server"
CONTAINER_HOST = "0.0.0.0"
DEFAULT_PORT = 8080  # of a model that names none
DEFAULT_DEPLOYMENT_TIMEOUT_SECONDS = 120.0
REFERENCE = re.compile(r"\$(\$)?\(([A-Za-z_][A-Za-z0-9_]*)\)")


def prebuilt_command(image: str, *, model: str) -> list[str]:
    """Return the command of the server that stands for an image; none for another image.

    Raises:
        ApiError: FAILED_PRECONDITION: nothing stands for this image on this machine.
    """
    match = PREBUILT.fullmatch(image)
    if not match:
        return []
    module = MODULES.get(match["name"])
    if module is None or (module == "sklearn" and not os.environ.get(UNPICKLING)):
        raise failed_precondition(
            f"{model} has Google's image {image} and no containerSpec.command; this service has "
            "a server for images of tensorflow and xgboost. Those of scikit-learn and PyTorch load "
            "pickled models, which run any code in them. Upload the model with the command of a "
            f"prediction server, or start the service with {UNPICKLING}=1 for scikit-learn's."
        )
    if importlib.util.find_spec(module) is None:
        raise failed_precondition(
            f"{model} has Google's image {image} and no containerSpec.command, so {module} in this "
            f"service's Python would serve it, but is not installed. {sys.executable} -m pip "
            f"install {module}, or upload the model with the command of a prediction server."
        )
    _warn_of_version(model, image, module)
    return ["python", "-m", PREBUILT_SERVER, module]


@functools.cache  # not at each start of its server
def _warn_of_version(model: str, image: str, module: str) -> None:
    logger.warning(
        "%s: instead of the image %s, the %s of %s serves it, whatever the version in the image's "
        "name; containerSpec.command names another server",
        model,
        image,
        module,
        sys.executable,
    )


@dataclass(frozen=True)
class ServingSpec:
    """Command, environment and routes of a prediction server.

    `model_port` is the port of its model. A container listens on it. A process, which has no
    `engine`, listens on the port given to it.
    """

    command: list[str]
    env: dict[str, str]
    health_route: str
    predict_route: str
    timeout_seconds: float
    image: str = ""
    model_port: int = DEFAULT_PORT
    engine: Engine | None = None

    def process_spec(self, *, port: int, log_path: Path) -> processes.ProcessSpec:
        """Return the process or container, which is reached on `port` of 127.0.0.1."""
        host, own_port, container = LOOPBACK, port, None
        if self.engine:
            host, own_port = CONTAINER_HOST, self.model_port
            container = self.engine.container(self.image, published=(own_port, port))
        env = {**self.env, "AIP_HTTP_HOST": host, "AIP_HTTP_PORT": str(own_port)}
        return processes.ProcessSpec(
            name="server",
            command=[_expand(word, env) for word in self.command],
            env={name: _expand(value, env) for name, value in env.items()},
            # Not the service's folder: a module there would hide the server's.
            cwd=None if self.engine else str(log_path.parent),
            log_path=log_path,
            is_primary=True,
            # On a shared core the service first passes on all requests that have arrived, so that
            # they share a batch.
            yields=True,
            container=container,
            environment=sys.prefix,
        )


def serving_spec(
    model: Json, *, endpoint_id: str, deployed_id: str, engine: Engine | None = None
) -> ServingSpec:
    """Return the serving spec of a model version, from its `containerSpec`.

    Raises:
        ApiError: FAILED_PRECONDITION if the model has no command, INVALID_ARGUMENT if its image is
            needed and missing.
    """
    container = model.get("containerSpec", {})
    title, image = f"{model['name']}@{model['versionId']}", container.get("imageUri", "")
    start = container.get("command", []) or ([] if engine else prebuilt_command(image, model=title))
    if not start:
        raise failed_precondition(
            f"{title} has no containerSpec.command, and this service does not read the entry point "
            "of an image; upload it with the command of its prediction server."
        )
    if engine:
        engine.check_image(image, field=f"{title}: containerSpec.imageUri")
    default_route = f"/v1/endpoints/{endpoint_id}/deployedModels/{deployed_id}"
    health_route = container.get("healthRoute") or default_route
    predict_route = container.get("predictRoute") or f"{default_route}:predict"
    env = {variable["name"]: variable.get("value", "") for variable in container.get("env", [])}
    env |= {
        "AIP_MODE": "PREDICTION",
        "AIP_HEALTH_ROUTE": health_route,
        "AIP_PREDICT_ROUTE": predict_route,
        "AIP_STORAGE_URI": model.get("artifactUri", ""),
        "AIP_ENDPOINT_ID": endpoint_id,
        "AIP_DEPLOYED_MODEL_ID": deployed_id,
    }
    timeout = container.get("deploymentTimeout", f"{DEFAULT_DEPLOYMENT_TIMEOUT_SECONDS}s")
    ports = container.get("ports", [])
    return ServingSpec(
        [*start, *container.get("args", [])],
        env,
        health_route,
        predict_route,
        timeout_seconds=float(timeout.rstrip("s")),
        image=image,
        model_port=ports[0]["containerPort"] if ports else DEFAULT_PORT,
        engine=engine,
    )


def _expand(text: str, env: dict[str, str]) -> str:
    """Replace `$(NAME)` as Kubernetes does, but not `$$(NAME)` and unknown names."""

    def value(match: re.Match[str]) -> str:
        return match[0][1:] if match[1] else env.get(match[2], match[0])

    return REFERENCE.sub(value, text)
