"""A local server that records requests; its responses let a client continue."""

import json
import urllib.parse
from contextlib import AbstractContextManager
from http.server import ThreadingHTTPServer
from typing import Any

from vertex_local.tests.support.http_server import Handler, running

PARENT = "projects/demo/locations/us-central1"
# Parameters of the form of the response: no part of the request itself.
FORMAL = {"$alt", "alt", "enum-encoding", "pageSize", "prettyPrint", "readMask"}
RESOURCES: dict[str, dict[str, Any]] = {
    "pipelineJobs/run-1": {
        "displayName": "run-1",
        "state": "PIPELINE_STATE_SUCCEEDED",
        "pipelineSpec": {"root": {"dag": {"tasks": {}}}, "components": {}},
    },
    "customJobs/7": {"displayName": "job", "state": "JOB_STATE_SUCCEEDED"},
    "schedules/4": {"displayName": "nightly", "state": "ACTIVE"},
    "models/5": {"displayName": "mnist", "versionId": "1"},
    "models/5@2": {"displayName": "mnist", "versionId": "2"},
    "endpoints/9": {
        "displayName": "mnist",
        "deployedModels": [{"id": "3", "model": f"{PARENT}/models/5", "modelVersionId": "1"}],
    },
}
LISTED = {"models": "models/5", "endpoints": "endpoints/9"}
CREATES = {
    "pipelineJobs": "pipelineJobs/run-1",
    "customJobs": "customJobs/7",
    "schedules": "schedules/4",
}
CREATED = "2026-01-31T12:00:00Z"


class Recorder(ThreadingHTTPServer):
    """Server that records `requests`, each {method, path, query, body}."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []

    @property
    def host(self) -> str:
        """`127.0.0.1:PORT`."""
        return f"127.0.0.1:{self.server_port}"

    def taken(self) -> list[dict[str, Any]]:
        """Return the requests since the last call."""
        taken, self.requests = self.requests, []
        return taken


class _Handler(Handler):
    server: Recorder

    def _serve(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        raw = self.body()
        words = dict(urllib.parse.parse_qsl(url.query))
        query = {k: v for k, v in words.items() if k.partition(";")[0] not in FORMAL}
        body = json.loads(raw) if raw else None
        path = urllib.parse.unquote(url.path)
        self.server.requests.append(
            {"method": self.command, "path": path, "query": query, "body": body}
        )
        self.respond(200, json.dumps(_response(self.command, path)).encode())

    do_GET = do_POST = do_DELETE = do_PATCH = _serve  # noqa: N815


def _response(method: str, path: str) -> dict[str, Any]:
    name = path.removeprefix("/v1/").removeprefix(f"{PARENT}/")
    if method == "GET":
        return _read(name)
    if name.endswith(":predict"):
        return {"predictions": []}
    if name.endswith((":cancel", ":pause", ":resume")):
        return {}
    if method == "PATCH" or name in CREATES:
        return _resource(CREATES.get(name, name))
    if name.endswith(":mergeVersionAliases"):
        return _resource("models/5")
    response = {"@type": "type.googleapis.com/google.protobuf.Empty"}
    if method == "POST":
        method = name.rpartition(":")[2]  # undeployModel, mutateDeployedModel
        kind = "Endpoint" if name == "endpoints" else f"{method[0].upper()}{method[1:]}Response"
        named = {"name": f"{PARENT}/endpoints/9"} if name == "endpoints" else {}
        response = {"@type": f"type.googleapis.com/google.cloud.aiplatform.v1.{kind}", **named}
    return {"name": f"{PARENT}/operations/1", "done": True, "response": response}


def _read(name: str) -> dict[str, Any]:
    if name in RESOURCES:
        return _resource(name)
    if name.endswith(":listVersions"):
        return {"models": [_resource("models/5")]}
    return {name: [_resource(LISTED[name])]} if name in LISTED else {}


def _resource(name: str) -> dict[str, Any]:
    return {"name": f"{PARENT}/{name.partition('@')[0]}", "createTime": CREATED, **RESOURCES[name]}


def recording() -> AbstractContextManager[Recorder]:
    """Serve a recorder until the block ends."""
    return running(Recorder())
