"""Google Cloud Pipeline Components, executed in the runner's process by calling the service.

On Vertex AI each is a container that runs a launcher of GCPC. Here the launcher's requests
(`requests.py`) go to the local service, and the same output files are written.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import requests

from vertex_local import Json
from vertex_local.client import TOKEN_VARIABLE, authorization
from vertex_local.machine.clock import now
from vertex_local.machine.files import local_path
from vertex_local.pipelines.gcpc import client
from vertex_local.pipelines.gcpc import requests as gcpc_requests
from vertex_local.pipelines.gcpc.requests import GcpcError, GcpcRequest, LauncherCall

CANCEL_TIMEOUT_SECONDS = 30.0
FIRST_POLL_SECONDS = 0.05
LONGEST_POLL_SECONDS = 0.2
USER_AGENT = "google-cloud-pipeline-components"
JOB_FINAL_STATES = {
    "JOB_STATE_SUCCEEDED",
    "JOB_STATE_FAILED",
    "JOB_STATE_CANCELLED",
    "JOB_STATE_PAUSED",
}


@dataclass(frozen=True)
class Operator:
    """Client of one service.

    `must_stop` is polled while a job or operation runs; if true, that is cancelled. `on_created` is
    called with the name of each one.
    """

    url: str
    must_stop: Callable[[], bool]
    write_log: Callable[[str], None]
    on_created: Callable[[str], None] = lambda name: None
    session: requests.Session = field(default_factory=requests.Session)

    def __post_init__(self) -> None:
        self.session.trust_env = False  # a proxy must not see requests to this machine
        self.session.headers["User-Agent"] = USER_AGENT
        self.session.headers.update(authorization(os.environ.get(TOKEN_VARIABLE, "")))

    def execute(self, command: list[str]) -> None:
        """Do what the launcher of `command` would do.

        Raises:
            GcpcError: The operation has failed; `checks.py` has refused those that are not here.
        """
        launch = gcpc_requests.parse_launch(command)
        if launch.type in gcpc_requests.JOBS:
            self._run_job(launch)
            return
        if launch.type == "GetModel":
            self._write_artifact(launch, self._call(gcpc_requests.get_model(launch)))
            return
        operation = self._run_operation(launch, self._request_of(launch))
        self._write_artifact(launch, operation.get("response", {}))

    def writes_to(self, folder: Path, *, parent: str) -> bool:
        """Return whether an unfinished custom job below `parent` writes to a folder."""
        return any(_writes_to(job, folder) for job in self._list(parent, "customJobs"))

    def _list(self, parent: str, kind: str, condition: str = "") -> Iterator[Json]:
        """Yield the resources of a kind below `parent` for which a filter's condition is true."""
        token = ""
        while True:
            query = urlencode({"filter": condition, "pageToken": token})
            page = self._call(GcpcRequest("GET", f"{parent}/{kind}?{query}"))
            yield from page.get(kind, [])
            if not (token := page.get("nextPageToken", "")):
                return

    def _request_of(self, launch: LauncherCall) -> GcpcRequest:
        if launch.type == "UndeployModel":
            endpoint = self._call(gcpc_requests.get_endpoint(launch))
            return gcpc_requests.undeploy_model(launch, endpoint)
        return gcpc_requests.BUILDERS[launch.type](launch)

    def _run_job(self, launch: LauncherCall) -> None:
        request = gcpc_requests.create_job(launch)
        kind = gcpc_requests.JOBS[launch.type]
        job = self._create(request, kind, partial(_is_job_of, request))
        name = job["name"]
        self._write_resources(launch, launch.type, name)
        self.write_log(f"created {name}")
        job = self._await(job, _is_final_job)
        self.write_log(f"{name}: {job['state']}")
        if job["state"] != "JOB_STATE_SUCCEEDED":
            reason = job.get("error", {}).get("message", "no message")
            raise GcpcError(f"{name} ended as {job['state']}: {reason}")
        self._write_artifact(launch, job)

    def _run_operation(self, launch: LauncherCall, request: GcpcRequest) -> Json:
        is_ours = partial(_is_operation_of, launch, request)
        operation = self._create(request, "operations", is_ours)
        name = operation["name"]
        self._write_resources(launch, "VertexLro", name)
        self.write_log(f"{launch.type}: {name}")
        operation = self._await(operation, lambda found: bool(found.get("done")))
        if operation.get("error"):
            raise GcpcError(f"{launch.type} failed: {operation['error'].get('message', '')}")
        self.write_log(f"{launch.type}: done")
        return operation

    def _await(self, resource: Json, is_final: Callable[[Json], bool]) -> Json:
        """Poll a job or operation until it is final; cancel it if the task must stop."""
        name = resource["name"]
        pause_seconds = FIRST_POLL_SECONDS
        deadline = math.inf
        while not is_final(resource):
            if deadline == math.inf and self.must_stop():
                self.write_log(f"cancelling {name}")
                self._call(GcpcRequest("POST", f"{name}:cancel", {}))
                deadline = time.monotonic() + CANCEL_TIMEOUT_SECONDS
            if time.monotonic() > deadline:
                raise GcpcError(
                    f"{name} was cancelled, but had not ended after {CANCEL_TIMEOUT_SECONDS:.0f} s"
                )
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 1.3, LONGEST_POLL_SECONDS)
            resource = self._call(GcpcRequest("GET", name))
        return resource

    def _create(self, request: GcpcRequest, kind: str, is_ours: Callable[[Json], bool]) -> Json:
        """Send a request; if its response is lost, look for the job or operation it has created."""
        parent, began = "/".join(request.path.split("/")[:4]), now()

        def find() -> Json | None:
            made = self._list(parent, kind, f'create_time>="{began}"')
            return next(filter(is_ours, made), None)

        return self._call(request, find)

    def _call(self, request: GcpcRequest, find: Callable[[], Json | None] = lambda: None) -> Json:
        return client.call(
            self.session,
            request.method,
            f"{self.url}/v1/{request.path}",
            body=request.body,
            find=find,
            write_log=self.write_log,
        )

    def _write_resources(self, launch: LauncherCall, kind: str, name: str) -> None:
        """Write the `gcp_resources` output, a GcpResources proto as JSON."""
        self.on_created(name)
        uri = f"{self.url}/v1/{name}"
        path = Path(launch.gcp_resources)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"resources": [{"resourceType": kind, "resourceUri": uri}]}))

    def _write_artifact(self, launch: LauncherCall, response: Json) -> None:
        """Write the artifacts that are the output of an operation or a job, if any.

        `response` is an operation's, a job, or the model of ModelGetOp.
        """
        if launch.type == "UploadModel":
            version = response.get("modelVersionId")
            output, name = "model", response["model"] + (f"@{version}" if version else "")
        elif launch.type == "GetModel":
            output, name = "model", f"{response['name'].partition('@')[0]}@{response['versionId']}"
        elif launch.type == "CreateEndpoint":
            output, name = "endpoint", response["name"]
        elif launch.type == "BatchPredictionJob":
            output, name = "batchpredictionjob", response["name"]
        else:
            return
        metadata = {"resourceName": name}
        fields = {output: {"uri": f"{self.url}/v1/{name}", "metadata": metadata}}
        if info := response.get("outputInfo"):
            metadata |= info
            fields["gcs_output_directory"] = {"uri": info["gcsOutputDirectory"]}
        outputs = json.loads(launch.executor_input)["outputs"]
        artifacts = {
            output: {"artifacts": [slot["artifacts"][0] | fields[output]]}
            for output, slot in outputs.get("artifacts", {}).items()
            if output in fields
        }
        path = Path(outputs["outputFile"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"artifacts": artifacts}))


def _is_job_of(request: GcpcRequest, job: Json) -> bool:
    body = request.body or {}
    names = [job.get("displayName"), job.get("labels", {})]
    return names == [body.get("display_name"), body.get("labels", {})]


def _is_operation_of(launch: LauncherCall, request: GcpcRequest, operation: Json) -> bool:
    kind = "Delete" if launch.type.startswith("Delete") else launch.type
    name, type_name = str(operation["name"]), str(operation["metadata"]["@type"])
    is_kind = type_name.endswith(f".{kind}OperationMetadata")
    return is_kind and name.startswith(f"{request.path.partition(':')[0]}/")


def _is_final_job(job: Json) -> bool:
    return job.get("state") in JOB_FINAL_STATES


def _writes_to(job: Json, folder: Path) -> bool:
    base = job.get("jobSpec", {}).get("baseOutputDirectory", {}).get("outputUriPrefix", "")
    return not _is_final_job(job) and bool(base) and folder.is_relative_to(local_path(base) or base)
