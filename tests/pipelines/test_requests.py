"""Each request of the project equals the SDK's request for the same purpose."""

import json
import sys
import tempfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1]))  # this is also run as a script

from components.endpoint import deployments  # noqa: E402
from components.endpoint.deployments import delete_endpoint  # noqa: E402
from components.endpoint.ensure import ensure_endpoint  # noqa: E402
from components.model_version import registry  # noqa: E402
from components.plan_training.shape import ClusterSpec  # noqa: E402
from components.release.options import ServingOptions  # noqa: E402
from components.shared.vertex.api import EMULATOR_VARIABLE, connect  # noqa: E402
from components.shared.vertex.creations import create_labelled  # noqa: E402
from components.shared.vertex.labels import SUBMISSION_LABEL  # noqa: E402
from components.shared.vertex.resource_name import ResourceName  # noqa: E402
from pipelines.config.built_in import mnist  # noqa: E402
from pipelines.jobs.log import job_log_lines, last_line  # noqa: E402
from pipelines.jobs.request import job_request  # noqa: E402
from pipelines.jobs.view import newest_jobs  # noqa: E402
from pipelines.package.spec import read_package  # noqa: E402
from pipelines.resources.endpoints import list_endpoints  # noqa: E402
from pipelines.resources.kinds import JOB, RUN  # noqa: E402
from pipelines.resources.models import all_versions, delete_model  # noqa: E402
from pipelines.resources.names import endpoint_of, get_model  # noqa: E402
from pipelines.runs.facts import newest_runs  # noqa: E402
from pipelines.runs.request import create_run, run_request  # noqa: E402
from pipelines.schedules import differences as schedules  # noqa: E402
from pipelines.schedules.plan import Wanted  # noqa: E402
from pipelines.serving.instances import Instance, predict  # noqa: E402
from tests.support.processes.everything import EVERYTHING  # noqa: E402
from tests.support.servers.recorder import PARENT, recording  # noqa: E402
from tests.support.servers.sdk_requests import (  # noqa: E402
    ACCOUNT,
    INSTANCES,
    LABELS,
    PACKAGE,
    ROOT,
    SCHEDULE,
    VALUES,
    record,
)
from vertex_local.tests.support.forks import forks_with  # noqa: E402

GOLDEN = FOLDER / "golden" / "requests.json"
UPDATE = "to accept: python tests/pipelines/test_requests.py"
RUN_NAME, JOB_NAME = f"{PARENT}/pipelineJobs/run-1", f"{PARENT}/customJobs/7"
MODEL, ENDPOINT = f"{PARENT}/models/5", f"{PARENT}/endpoints/9"


def custom_job():
    """Return a job with all features of cluster files."""
    cluster = ClusterSpec(
        strategy="multi_worker_mirrored",
        workers=2,
        machine="n1-standard-8",
        accelerator={"type": "NVIDIA_TESLA_T4", "count": 1},
        spot=True,
    )
    return job_request(
        mnist().replace(cluster=cluster, train={"epochs": 1}, service_account=ACCOUNT),
        name="job",
        image="r.example/i:1",
        examples_uri="gs://bucket/examples",
        output_uri="gs://bucket/out",
    )


def submit(api, **options):
    """Submit the run of the golden requests."""
    labels = {name: value for name, value in LABELS.items() if name == "team"}
    request = run_request(
        read_package(json.dumps(PACKAGE), source="tiny"),
        run="run-1",
        pipeline_root=ROOT,
        parameters=VALUES,
        labels=labels,
        **options,
    )
    create_run(api, request, run="run-1")


def apply(api, existing):
    """Create or change the schedule of the golden requests."""
    wanted = Wanted(body=SCHEDULE, is_paused=False, catch_up=False)
    options = {"action": "change", "name": "nightly", "detail": ""}
    change = schedules.Change(wanted=wanted, existing=existing, **options)
    schedules.apply_change(api, change)


def scale(api, options: ServingOptions) -> None:
    """Scale version 2 of the model, which is deployed to one machine."""
    deployed = {"id": "3", "model": MODEL, "modelVersionId": "2"}
    deployed["dedicatedResources"] = ServingOptions().resources
    endpoint = {"name": ENDPOINT, "deployedModels": [deployed]}
    deployments.scale(api, endpoint, ResourceName.from_name(f"{MODEL}@2"), options.resources)


def instances() -> list[Instance]:
    return [
        Instance(value=value, position=f"line {number}", num_bytes=len(json.dumps(value)))
        for number, value in enumerate(INSTANCES, start=1)
    ]


# By the name of the golden request: what sends it here. Others may be sent as well.
OURS = {
    "submit": submit,
    "submit_anew": lambda api: submit(api, use_cache=False, service_account=ACCOUNT),
    "runs_list": lambda api: newest_runs(api, limit=20),
    "run_get": lambda api: RUN.get(api, "run-1"),
    "run_cancel": lambda api: api.post(f"{RUN_NAME}:cancel", {}),
    "run_delete": lambda api: RUN.delete(api, "run-1"),
    "job_create": lambda api: create_labelled(api, "customJobs", custom_job()),
    "jobs_list": newest_jobs,
    "jobs_of_a_run": lambda api: list(
        api.list_resources("customJobs", filter='labels.trainyard_run="run-1"')
    ),
    "job_get": lambda api: JOB.get(api, "7"),
    "job_cancel": lambda api: api.post(f"{JOB_NAME}:cancel", {}),
    "job_delete": lambda api: JOB.delete(api, "7"),
    "schedule_create": lambda api: apply(api, None),
    "schedules_list": schedules.ours,
    "schedule_update": lambda api: apply(api, {"name": f"{PARENT}/schedules/4", "state": "ACTIVE"}),
    "schedule_pause": lambda api: schedules.pause(api, {"name": f"{PARENT}/schedules/4"}),
    "schedule_resume": lambda api: schedules.resume(
        api, {"name": f"{PARENT}/schedules/4"}, catch_up=True
    ),
    "schedule_delete": lambda api: schedules.delete(api, {"name": f"{PARENT}/schedules/4"}),
    "models_list": all_versions,
    "models_named": lambda api: registry.find_model(api, "mnist"),
    "model_get": lambda api: get_model(api, "mnist@2"),
    "model_versions": lambda api: registry.list_versions(api, MODEL),
    "model_alias": lambda api: registry.add_alias(
        api, ResourceName.from_name(f"{MODEL}@2"), "default"
    ),
    "model_delete": lambda api: delete_model(api, "mnist", confirm_all=lambda count: True),
    "version_delete": lambda api: delete_model(api, "mnist@2", confirm_all=lambda count: False),
    "endpoints_list": list_endpoints,
    "endpoints_named": lambda api: ensure_endpoint(api, "mnist", run="run-1"),
    "endpoint_create": lambda api: api.wait(
        api.post(
            f"{PARENT}/endpoints",
            {"displayName": "mnist", "labels": {"trainyard_run": "run-1"}},
        ),
        timeout_seconds=10,
    ),
    "endpoint_get": lambda api: delete_endpoint(api, endpoint_of(api, "mnist")),
    "scale": lambda api: scale(api, ServingOptions(max_replicas=5, cpu_target=70)),
    "undeploy": lambda api: deployments.undeploy(api, ENDPOINT, deployed_id="3", split={}),
    "endpoint_delete": lambda api: delete_endpoint(api, endpoint_of(api, "mnist")),
    "predict": lambda api: predict(api, "mnist", instances()),
    "job_log": lambda api: list(job_log_lines(api, "7")),
    "replica_log": lambda api: list(job_log_lines(api, "7", replica="worker/1")),
    "last_line": lambda api: last_line(api, "7", "worker/1"),
}


@pytest.fixture(scope="module")
def golden():
    return json.loads(GOLDEN.read_text())


@pytest.fixture(scope="module")
def server():
    with recording() as found:
        yield found


@pytest.mark.parametrize("name", OURS)
def test_request_equals_the_sdks(server, golden, monkeypatch, name):
    monkeypatch.setenv(EMULATOR_VARIABLE, server.host)
    server.taken()

    OURS[name](connect("demo", "us-central1"))

    sent = [normal(one) for one in server.taken()]
    for expected in golden[name]:
        assert normal(expected) in sent, UPDATE


@pytest.mark.timeout(200)
def test_the_golden_requests_are_what_the_installed_sdk_sends(golden, tmp_path):
    path = tmp_path / "requests.json"

    words = ["python", "-m", "tests.pipelines.test_requests", str(path)]
    program = forks_with(*EVERYTHING).start(words, log_path=tmp_path / "log")

    assert program.wait(180) == 0, program.output
    assert json.loads(path.read_text()) == golden, UPDATE


def test_every_golden_request_is_compared(golden):
    assert set(golden) == set(OURS)


def normal(request):
    """Return a request with enums by name, no empty body, and only the masked fields of a patch."""
    body = request["body"] or None
    if mask := request["query"].get("updateMask"):
        body = {field: body[field] for field in mask.split(",")}
    if request["path"].endswith("/customJobs") and request["method"] == "POST":
        from google.cloud.aiplatform_v1.types import CustomJob

        body = CustomJob.to_dict(CustomJob.from_json(json.dumps(body)))
        body["labels"].pop(SUBMISSION_LABEL, None)
    return {**request, "body": body}


def write_golden(path: Path) -> None:
    """Record the SDK's requests."""
    with recording() as recorder, tempfile.TemporaryDirectory() as folder:
        found = record(recorder, Path(folder), custom_job())
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    write_golden(Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN)
