"""Comparison with Google's launchers: the same requests, resources and files."""

import copy
import importlib
import json
from pathlib import Path

import pytest
import requests
from google_cloud_pipeline_components.types.artifact_types import (
    UnmanagedContainerModel,
    VertexEndpoint,
    VertexModel,
)
from google_cloud_pipeline_components.v1.batch_predict_job import ModelBatchPredictOp
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from google_cloud_pipeline_components.v1.endpoint import (
    EndpointCreateOp,
    EndpointDeleteOp,
    ModelDeployOp,
    ModelUndeployOp,
)
from google_cloud_pipeline_components.v1.model import ModelDeleteOp, ModelGetOp, ModelUploadOp

from vertex_local.pipelines.gcpc.operator import Operator
from vertex_local.pipelines.gcpc.requests import GcpcError
from vertex_local.tests.support.gcpc_tasks import job_arguments, resolved_command, resource
from vertex_local.tests.support.platform import TOKEN
from vertex_local.tests.support.service import CREDENTIALS, PROJECT_AND_LOCATION, SERVER_SCRIPT

GOOGLE = "https://us-central1-aiplatform.googleapis.com"
LABELS = {"trainyard_run": "r1"}


class Recorder(requests.Session):
    """Send all requests to the service, whatever their host; record those that change something."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.trust_env = False
        self._url = url
        self.changes: list[tuple[str, str, dict | None]] = []

    def request(self, method, url, **arguments):
        path = url.partition("/v1/")[2]
        response = super().request(method, f"{self._url}/v1/{path}", **arguments)
        if method != "GET":
            body = response.request.body
            self.changes.append((method, path, json.loads(body) if body else None))
        return response


class Both:
    """Runs a task with Google's launcher and with ours, in separate folders."""

    def __init__(self, service, folder: Path, monkeypatch) -> None:
        self._service = service
        self.folder = folder
        self._num_tasks = 0
        self.google = Recorder(service.url)
        self.ours = Recorder(service.url)
        monkeypatch.setenv("VERTEX_AI_PIPELINES_RUN_LABELS", json.dumps(LABELS))
        self._point_google_here(monkeypatch)

    def _point_google_here(self, monkeypatch) -> None:
        import google.auth
        from google.cloud import aiplatform
        from google_cloud_pipeline_components.container.v1.gcp_launcher import (
            job_remote_runner,
            lro_remote_runner,
        )

        credentials = copy.copy(CREDENTIALS)
        credentials.token = TOKEN or "none"

        class JobServiceClient(aiplatform.gapic.JobServiceClient):
            def __init__(client, client_options=None, client_info=None) -> None:  # noqa: N805
                super().__init__(
                    credentials=CREDENTIALS,
                    transport="rest",
                    client_options={"api_endpoint": self._service.url},
                )

        monkeypatch.setattr(google.auth, "default", lambda **_: (credentials, "demo"))
        monkeypatch.setattr(aiplatform.gapic, "JobServiceClient", JobServiceClient)
        for module in (job_remote_runner, lro_remote_runner):
            monkeypatch.setattr(module, "_POLLING_INTERVAL_IN_SECONDS", 0.05)
        for verb in ("get", "post", "delete"):

            def send(url, verb=verb, **arguments):
                return self.google.request(verb.upper(), url, **arguments)

            monkeypatch.setattr(requests, verb, send)

    def by_google(self, component, **arguments) -> dict:
        folder, command = self._task(component, arguments)
        launcher = importlib.import_module(command[command.index("-m") + 1])
        launcher.main(command[command.index("-m") + 2 :])
        return self._files(folder)

    def by_us(self, component, **arguments) -> dict:
        folder, command = self._task(component, arguments)
        operator = Operator(
            url=self._service.url,
            must_stop=lambda: False,
            write_log=lambda line: None,
            session=self.ours,
        )
        operator.execute(command)
        return self._files(folder)

    def same(self, component, **arguments) -> tuple[dict, dict]:
        """Run a task with both, which must send the same request; return the files of both."""
        google, ours = (by(component, **arguments) for by in (self.by_google, self.by_us))
        assert self.ours.changes[-1] == self.google.changes[-1]
        assert sorted(google) == sorted(ours)
        return google, ours

    def _task(self, component, arguments: dict) -> tuple[Path, list[str]]:
        self._num_tasks += 1
        folder = self.folder / f"task-{self._num_tasks}"
        folder.mkdir(parents=True)
        return folder, resolved_command(component, folder, **arguments)

    def _files(self, folder: Path) -> dict:
        """Return the files of the task, with the address and the folder replaced."""
        found = {}
        for path in folder.iterdir():
            text = path.read_text().replace(GOOGLE, self._service.url)
            found[path.name] = json.loads(text.replace(folder.name, "task"))
        return found


@pytest.fixture
def both(own_service, tmp_path, monkeypatch):
    return Both(own_service, tmp_path, monkeypatch)


def without_identity(value, *names: str):
    """Return the value as text, without parts that differ between two resources."""
    text = json.dumps(value, sort_keys=True)
    for name in names:
        text = text.replace(name, "NAME")
    return text


@pytest.fixture
def model_arguments(artifact_folder):
    container = {
        "imageUri": "any",
        "command": ["python", str(SERVER_SCRIPT)],
        "ports": [{"containerPort": 8080}],
        "deploymentTimeout": "20s",
    }
    unmanaged = UnmanagedContainerModel(
        name="unmanaged_container_model",
        uri=str(artifact_folder),
        metadata={"containerSpec": container},
    )
    return {
        "display_name": "m",
        "unmanaged_container_model": unmanaged,
        "version_aliases": ["champion"],
        "labels": {"own": "yes"},
        **PROJECT_AND_LOCATION,
    }


def test_model_and_endpoint_operations_send_what_google_sends(both, service, model_arguments):
    google, ours = both.same(ModelUploadOp, **model_arguments)
    models = [resource(files, "model") for files in (google, ours)]
    assert both.ours.changes[-1][2]["model"]["labels"] == {**LABELS, "own": "yes"}
    assert models[0].endswith("@1")
    names = [name.rpartition("@")[0] for name in models]
    assert without_identity(google["executor_output.json"], names[0]) == without_identity(
        ours["executor_output.json"], names[1]
    )
    parent = VertexModel.create("parent_model", "", models[0])
    versions = both.same(ModelUploadOp, **model_arguments, parent_model=parent)
    assert [resource(one, "model") for one in versions] == [f"{names[0]}@2", f"{names[0]}@3"]
    none = VertexModel.create("parent_model", "", "")
    assert resource(both.same(ModelUploadOp, **model_arguments, parent_model=none)[1], "model")

    google, ours = both.same(EndpointCreateOp, display_name="e", **PROJECT_AND_LOCATION)
    endpoints = [resource(files, "endpoint") for files in (google, ours)]
    assert without_identity(google["executor_output.json"], endpoints[0]) == without_identity(
        ours["executor_output.json"], endpoints[1]
    )
    assert ours["gcp_resources"]["resources"][0]["resourceType"] == "VertexLro"
    assert google["gcp_resources"]["resources"][0].keys() == {"resourceType", "resourceUri"}

    deploy = {
        "model": VertexModel.create("model", "", models[1]),
        "endpoint": VertexEndpoint.create("endpoint", "", endpoints[1]),
        "traffic_split": {"0": "100"},
        "dedicated_resources_machine_type": "n1-standard-4",
        "dedicated_resources_min_replica_count": 1,
        "dedicated_resources_max_replica_count": 1,
    }
    assert both.same(ModelDeployOp, **deploy)[1].keys() == {"gcp_resources"}
    deployed = service.do("GET", f"/v1/{endpoints[1]}")["deployedModels"]
    assert len(deployed) == 2
    undeploy = {key: deploy[key] for key in ("model", "endpoint")}
    split = {deployed[1]["id"]: "100"}
    both.by_google(ModelUndeployOp, **undeploy, traffic_split=split)
    both.by_us(ModelUndeployOp, **undeploy)
    google_request, our_request = both.google.changes[-1], both.ours.changes[-1]
    assert google_request[:2] == our_request[:2]
    assert google_request[2].pop("traffic_split") == split
    assert google_request[2].keys() == our_request[2].keys()
    assert service.do("GET", f"/v1/{endpoints[1]}").get("deployedModels", []) == []

    for component, key, kind, resources in (
        (EndpointDeleteOp, "endpoint", VertexEndpoint, endpoints),
        (ModelDeleteOp, "model", VertexModel, models),
    ):
        both.by_google(component, **{key: kind.create(key, "", resources[0])})
        both.by_us(component, **{key: kind.create(key, "", resources[1])})
        (method, path, body), ours = both.google.changes[-1], both.ours.changes[-1]
        bare = [name.partition("@")[0] for name in resources]
        assert (method, path, body) == ("DELETE", bare[0], None)
        assert ours == ("DELETE", bare[1], None)
        for name in bare:
            assert service.call("GET", f"/v1/{name}").status_code == 404


def test_a_model_is_found_by_name_version_and_alias(both, service, upload):
    name = upload(versionAliases=["best"])["model"]
    upload(parentModel=name, versionAliases=["default"])
    for suffix, version in (("", "2"), ("@1", "1"), ("@best", "1")):
        files = both.by_us(
            ModelGetOp, model_name=f"{name.rpartition('/')[2]}{suffix}", **PROJECT_AND_LOCATION
        )
        [artifact] = files["executor_output.json"]["artifacts"]["model"]["artifacts"]
        assert artifact["metadata"] == {"resourceName": f"{name}@{version}"}
        assert artifact["uri"] == f"{service.url}/v1/{name}@{version}"
        assert artifact["type"] == {"schemaTitle": "google.VertexModel", "schemaVersion": "0.0.1"}


def test_custom_jobs_are_created_like_googles(both, service):
    arguments = job_arguments("print('trained')")
    jobs = []
    for by in (both.by_google, both.by_us):
        [entry] = by(CustomTrainingJobOp, **arguments)["gcp_resources"]["resources"]
        assert entry["resourceType"] == "CustomJob"
        job = service.do("GET", entry["resourceUri"].removeprefix(service.url))
        assert job["labels"] == {**LABELS, "own": "yes"}
        jobs.append({key: job[key] for key in job if key != "name" and not key.endswith("Time")})
    assert jobs[0] == jobs[1]


def test_batch_predictions_are_created_like_googles(both, service, upload, tmp_path):
    (tmp_path / "rows.jsonl").write_text("3\n")
    arguments = {
        "job_display_name": "b",
        "model": VertexModel.create("model", "", upload()["model"]),
        "gcs_source_uris": [str(tmp_path / "rows.jsonl")],
        "gcs_destination_output_uri_prefix": str(tmp_path / "out"),
        "machine_type": "n1-standard-2",
        "starting_replica_count": 1,
        "max_replica_count": 1,
        "model_parameters": {"topK": "3"},
        **PROJECT_AND_LOCATION,
    }
    found = []
    for by in (both.by_google, both.by_us):
        files = by(ModelBatchPredictOp, **arguments)
        artifacts = files["executor_output.json"]["artifacts"]
        [made], [folder] = (
            artifacts[name]["artifacts"] for name in ("batchpredictionjob", "gcs_output_directory")
        )
        job = service.do("GET", f"/v1/{made['metadata']['resourceName']}")
        assert job["outputInfo"] == {"gcsOutputDirectory": folder["uri"]}
        assert made["metadata"]["gcsOutputDirectory"] == folder["uri"]
        assert (job["state"], job["labels"]) == ("JOB_STATE_SUCCEEDED", LABELS)
        same = {key: job[key] for key in job if key not in ("name", "outputInfo")}
        same = {key: same[key] for key in same if not key.endswith("Time")}
        found.append((same, sorted(artifacts), made["type"], made["uri"].rpartition("/")[0]))
    assert found[0] == found[1]


def test_a_failed_job_fails_the_task_with_the_jobs_message(both):
    arguments = job_arguments("raise SystemExit('out of cheese')")
    with pytest.raises(ValueError, match="error state"):
        both.by_google(CustomTrainingJobOp, **arguments)
    with pytest.raises(GcpcError, match=r"(?s)JOB_STATE_FAILED: .*out of cheese"):
        both.by_us(CustomTrainingJobOp, **arguments)


def test_refused_requests_are_named(both, service):
    with pytest.raises(GcpcError, match="INVALID_ARGUMENT"):
        both.by_us(EndpointCreateOp, display_name="", **PROJECT_AND_LOCATION)
    with pytest.raises(GcpcError, match="NOT_FOUND"):
        both.by_us(ModelGetOp, model_name="m", **PROJECT_AND_LOCATION)
    operator = Operator(
        url="http://127.0.0.1:9", must_stop=lambda: False, write_log=lambda line: None
    )
    with pytest.raises(GcpcError, match=r"127\.0\.0\.1:9"):
        operator.execute(
            resolved_command(
                EndpointCreateOp, both.folder, display_name="e", **PROJECT_AND_LOCATION
            )
        )
