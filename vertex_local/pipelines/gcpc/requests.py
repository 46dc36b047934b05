"""Requests of Google Cloud Pipeline Components, built from their command lines.

Each function does the same as the launcher of that operation in the wheel, under
google_cloud_pipeline_components/container/v1; tests compare the requests of both.
"""

import argparse
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from vertex_local import Json
from vertex_local.api.fields import snake_case

RUN_LABELS_VARIABLE = "VERTEX_AI_PIPELINES_RUN_LABELS"
# Collections of the jobs that an operation creates and awaits, by its type.
JOBS = {
    "CustomJob": "customJobs",
    "HyperparameterTuningJob": "hyperparameterTuningJobs",
    "BatchPredictionJob": "batchPredictionJobs",
}
LAUNCHER_PREFIX = "google_cloud_pipeline_components."
# Ends of modules: the first has no --type, and the second does nothing: Vertex AI sends the mail.
GET_MODEL, NOTIFICATION = "get_model.launcher", "vertex_notification_email.executor"
MODEL_NAME = re.compile(r"projects/[^/]+/locations/[^/]+/models/[^/]+")
ENDPOINT_NAME = re.compile(r"projects/[^/]+/locations/[^/]+/endpoints/[^/]+")


class GcpcError(Exception):
    """Failure of an operation, with the reason."""


@dataclass(frozen=True)
class LauncherCall:
    """Command line of a launcher, parsed as the launchers do."""

    type: str
    project: str
    location: str
    payload: str = ""
    gcp_resources: str = ""
    executor_input: str = "{}"
    parent_model_name: str = ""
    model_name: str = ""

    @property
    def parent(self) -> str:
        """`projects/P/locations/L`."""
        return f"projects/{self.project}/locations/{self.location}"

    def spec(self) -> Json:
        """Return the payload; like the launchers, allow control characters in strings."""
        try:
            spec = json.loads(self.payload, strict=False)
        except ValueError as error:
            raise GcpcError(
                f"the payload of {self.type} is not JSON ({error}): {self.payload}; "
                "GCPC pastes values into it unescaped, so no value may have a quote or a backslash"
            ) from None
        if not isinstance(spec, dict):
            raise GcpcError(f"the payload of {self.type} is not a JSON object: {self.payload}")
        return spec


@dataclass(frozen=True)
class GcpcRequest:
    """Request to a path below `/v1/`."""

    method: str
    path: str
    body: Json | None = None


def is_launch(command: list[str]) -> bool:
    """Return whether a task's command starts a GCPC launcher."""
    return launcher_module(command).startswith(LAUNCHER_PREFIX)


def launcher_module(command: list[str]) -> str:
    """Return the module that `python -m` runs; "" for other commands."""
    return command[command.index("-m") + 1] if "-m" in command[:-1] else ""


def is_notification(command: list[str]) -> bool:
    """Return whether a task sends a mail about the end of its pipeline."""
    return is_launch(command) and launcher_module(command).endswith(NOTIFICATION)


def operation(command: list[str]) -> str:
    """Return the name of a GCPC task's operation: its --type, or else a part of its module."""
    module = launcher_module(command)
    if module.endswith(GET_MODEL):
        return "GetModel"
    return command[command.index("--type") + 1] if "--type" in command[:-1] else ""


def parse_launch(command: list[str]) -> LauncherCall:
    """Parse the command of a GCPC task."""
    kind = operation(command)
    parser = _LauncherParser(prog=launcher_module(command), add_help=False)
    parser.add_argument("--type", default=kind, required=not kind)
    for name in ("project", "location"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("payload", "gcp_resources"):
        parser.add_argument(f"--{name}", default="", required=kind != "GetModel")
    parser.add_argument("--executor_input", default="{}")
    parser.add_argument("--parent_model_name", default="")
    parser.add_argument("--model_name", default="")
    arguments = command[command.index("-m") + 2 :]
    parsed, _ = parser.parse_known_args(arguments)
    return LauncherCall(**vars(parsed))


def create_job(launch: LauncherCall) -> GcpcRequest:
    """Return the request of CustomTrainingJobOp and its like, or of ModelBatchPredictOp."""
    spec = launch.spec()
    spec["labels"] = _labels(spec)
    spec = _without_empty(spec)
    _refuse_camel_case({key: spec[key] for key in spec if key != "model_parameters"})
    scheduling = spec.get("job_spec", {}).get("scheduling", {})
    # max_wait_duration is accepted with FLEX_START only.
    if scheduling.get("strategy", "FLEX_START") != "FLEX_START":
        scheduling.pop("max_wait_duration", None)
    return GcpcRequest("POST", f"{launch.parent}/{JOBS[launch.type]}", spec)


def upload_model(launch: LauncherCall) -> GcpcRequest:
    """Return the request of ModelUploadOp."""
    spec = launch.spec()
    spec["labels"] = _labels(spec)
    body: Json = {"model": _without_empty(spec | _unmanaged_container_model(launch))}
    if launch.parent_model_name:
        body["parent_model"] = launch.parent_model_name.rsplit("@", 1)[0]
    # Features of an explanation may be empty objects, which must not be removed.
    explanation = spec.get("explanation_spec", {}).get("metadata")
    if explanation:
        body["model"].setdefault("explanation_spec", {})["metadata"] = explanation
    return GcpcRequest("POST", f"{launch.parent}/models:upload", body)


def create_endpoint(launch: LauncherCall) -> GcpcRequest:
    """Return the request of EndpointCreateOp."""
    spec = launch.spec()
    spec["labels"] = _labels(spec)
    body = _without_empty(spec)
    return GcpcRequest("POST", f"{launch.parent}/endpoints", body)


def deploy_model(launch: LauncherCall) -> GcpcRequest:
    """Return the request of ModelDeployOp; project and location are in the endpoint's name."""
    body = _without_empty(launch.spec())
    endpoint = _resource_name(body, "endpoint", ENDPOINT_NAME)
    return GcpcRequest("POST", f"{endpoint}:deployModel", body)


def get_endpoint(launch: LauncherCall) -> GcpcRequest:
    """Return the request by which ModelUndeployOp reads its endpoint."""
    return GcpcRequest("GET", _resource_name(launch.spec(), "endpoint", ENDPOINT_NAME))


def undeploy_model(launch: LauncherCall, endpoint: Json) -> GcpcRequest:
    """Return the request of ModelUndeployOp; `endpoint` is the response to `get_endpoint`."""
    spec = _without_empty(launch.spec())
    full_name = _resource_name(spec, "model", MODEL_NAME)
    name, _, version = full_name.partition("@")
    for deployed in endpoint.get("deployedModels", []):
        if deployed["model"] == name and version in ("", deployed.get("modelVersionId")):
            body = {"deployed_model_id": deployed["id"]}
            if "traffic_split" in spec:
                body["traffic_split"] = spec["traffic_split"]
            return GcpcRequest("POST", f"{spec['endpoint']}:undeployModel", body)
    raise GcpcError(f"model {full_name} is not deployed on {spec['endpoint']}")


def delete_model(launch: LauncherCall) -> GcpcRequest:
    """Return the request of ModelDeleteOp, which deletes every version."""
    name = _resource_name(launch.spec(), "model", MODEL_NAME)
    return GcpcRequest("DELETE", name.rsplit("@", 1)[0])


def get_model(launch: LauncherCall) -> GcpcRequest:
    """Return the request of ModelGetOp; its model may have a version or an alias behind `@`."""
    return GcpcRequest("GET", f"{launch.parent}/models/{launch.model_name}")


def delete_endpoint(launch: LauncherCall) -> GcpcRequest:
    """Return the request of EndpointDeleteOp."""
    return GcpcRequest("DELETE", _resource_name(launch.spec(), "endpoint", ENDPOINT_NAME))


# Without UndeployModel, which must read the endpoint first, and those that change nothing.
BUILDERS: dict[str, Callable[[LauncherCall], GcpcRequest]] = {
    **dict.fromkeys(JOBS, create_job),
    "UploadModel": upload_model,
    "CreateEndpoint": create_endpoint,
    "DeployModel": deploy_model,
    "DeleteModel": delete_model,
    "DeleteEndpoint": delete_endpoint,
}
SUPPORTED = (*BUILDERS, "UndeployModel", "GetModel", "VertexNotificationEmail")


class _LauncherParser(argparse.ArgumentParser):
    """Parser that raises GcpcError instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise GcpcError(f"{self.prog}: {message}; supported operations are {', '.join(SUPPORTED)}")


def _labels(spec: Json) -> Json:
    """Return the labels of the run and of a payload, where they may be null."""
    labels: Json = json.loads(os.environ.get(RUN_LABELS_VARIABLE, "{}"))
    return labels | (spec.get("labels") or {})


def _without_empty(value: Any) -> Any:
    """Remove empty and false fields, and empty lists and objects of lists, as the launchers do."""
    if isinstance(value, dict):
        fields = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in fields.items() if item}
    if isinstance(value, list):
        items = [_without_empty(item) for item in value]
        return [item for item in items if item or isinstance(item, int | float | str)]
    return value


def _snake_cased(value: Any) -> Any:
    if isinstance(value, dict):
        return {snake_case(key): _snake_cased(item) for key, item in value.items()}
    return [_snake_cased(item) for item in value] if isinstance(value, list) else value


def _unmanaged_container_model(launch: LauncherCall) -> Json:
    inputs = json.loads(launch.executor_input).get("inputs", {}).get("artifacts", {})
    artifacts = inputs.get("unmanaged_container_model", {}).get("artifacts")
    if not artifacts:
        return {}
    metadata = artifacts[0].get("metadata", {})
    return {
        "predict_schemata": _snake_cased(metadata.get("predictSchemata", {})),
        "container_spec": _snake_cased(metadata.get("containerSpec", {})),
        "artifact_uri": artifacts[0].get("uri"),
    }


def _refuse_camel_case(spec: Any, path: str = "") -> None:
    """Refuse camelCase fields: the launcher's client knows only the names of the proto."""
    if isinstance(spec, list):
        for index, one in enumerate(spec):
            _refuse_camel_case(one, f"{path}[{index}]")
    elif isinstance(spec, dict):
        for key, value in spec.items():
            if key != key.lower():
                raise GcpcError(
                    f"the payload of a job has the field {path}.{key}; as on Vertex AI, "
                    f"it must be written {snake_case(key)!r}"
                )
            _refuse_camel_case(value, f"{path}.{key}".lstrip("."))


def _resource_name(spec: Json, key: str, pattern: re.Pattern[str]) -> str:
    name = spec.get(key, "")
    if not isinstance(name, str) or not pattern.fullmatch(name):
        form = pattern.pattern.replace("[^/]+", "…")
        raise GcpcError(f"{key} {name!r} is not a resource name; it must be {form}")
    return name
