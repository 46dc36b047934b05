"""Schedules with Google's SDK, and requests of `trainyard schedule` compared with the SDK's."""

import json
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from google.cloud.aiplatform_v1 import types
from google.protobuf import json_format
from kfp import compiler, dsl

from components.model_version.registry import list_versions
from components.shared.vertex.api import EMULATOR_VARIABLE, VertexApi, connect
from components.shared.vertex.labels import CANDIDATE, STATE_LABEL
from components.teardown.run_resources import UPLOAD
from components.teardown.teardown import teardown
from pipelines.places.target import Target
from pipelines.schedules import differences as schedules
from pipelines.schedules.differences import plan_schedule
from pipelines.schedules.file import ScheduleFile
from tests.support.processes.waiting import wait_until
from tests.support.servers.http_server import Handler, running
from vertex_local.client import ENDS_WHEN_UNUSED_FILE, Lease

PROJECT, LOCATION = "demo", "us-central1"
PARENT = f"projects/{PROJECT}/locations/{LOCATION}"
YEARLY = "TZ=Europe/Berlin 0 3 1 1 *"
WAIT_TIMEOUT_SECONDS = 60
CLOCK_SPEED = 600  # a minute takes a tenth of a second


@dsl.component(install_kfp_package=False, base_image="python:3.11")
def note(text: str) -> str:
    return text


@dsl.pipeline(name="notes")
def notes(text: str = "none"):
    note(text=f"{text} {dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER}")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "notes.yaml"
    compiler.Compiler().compile(notes, str(path))
    return path


@pytest.fixture
def job(aiplatform, package, tmp_path):
    return aiplatform.PipelineJob(
        display_name="notes",
        template_path=str(package),
        pipeline_root=str(tmp_path / "root"),
        parameter_values={"text": "hello"},
        labels={"team": "a"},
        location="us-central1",
    )


@pytest.fixture
def body(package, tmp_path):
    """Request body of a schedule."""
    return plan(package, tmp_path).body


def plan(package, tmp_path, **fields):
    file = ScheduleFile(
        path=tmp_path / "yearly.yaml", source=str(package), is_package=True, cron=YEARLY, **fields
    )
    target = Target(
        project="demo",
        location="us-central1",
        pipeline_root=str(tmp_path / "root"),
        data_root="",
        state_dir=tmp_path,
    )
    return plan_schedule(file, target=target)


def test_the_sdk_creates_changes_pauses_resumes_and_deletes(service, aiplatform, job):
    schedule = job.create_schedule(cron=YEARLY, display_name="yearly", max_concurrent_run_count=2)
    assert schedule.state.name == "ACTIVE"
    [listed] = aiplatform.PipelineJobSchedule.list(
        filter='display_name="yearly" AND state="ACTIVE"'
    )
    assert listed.resource_name == schedule.resource_name
    found = service.do("GET", f"/v1/{schedule.resource_name}")
    assert found["nextRunTime"].endswith("-01-01T02:00:00Z")
    assert found["createPipelineJobRequest"]["pipelineJob"]["labels"] == {"team": "a"}

    schedule.update(cron="0 5 1 1 *", max_run_count=3)
    assert (schedule.cron, schedule.max_run_count) == ("0 5 1 1 *", 3)
    found = service.do("GET", f"/v1/{schedule.resource_name}")
    assert found["nextRunTime"].endswith("-01-01T05:00:00Z")

    schedule.pause()
    assert schedule.state.name == "PAUSED"
    again = service.call("POST", f"/v1/{schedule.resource_name}:pause", {})
    assert again.json()["error"]["status"] == "FAILED_PRECONDITION"
    schedule.resume()
    assert schedule.state.name == "ACTIVE"

    schedule.delete()
    assert service.call("GET", f"/v1/{schedule.resource_name}").status_code == 404
    assert aiplatform.PipelineJobSchedule.list() == []


def test_lists_come_in_pages(service, body):
    for number in range(3):
        service.do("POST", "schedules", {**body, "displayName": f"s{number}"})

    first = service.do("GET", "schedules", params={"pageSize": "2"})
    query = {"pageSize": "2", "pageToken": first["nextPageToken"]}
    rest = service.do("GET", "schedules", params=query)

    names = [one["displayName"] for page in (first, rest) for one in page["schedules"]]
    assert (names, "nextPageToken" in rest) == (["s0", "s1", "s2"], False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cron": "0 0 3 * * *"}, "6 fields"),
        ({"cron": "TZ=Mars/Olympus 0 3 * * *"}, '"Mars/Olympus"'),
        ({"cron": None}, "cron is missing"),
        ({"displayName": ""}, "displayName is missing"),
        ({"maxConcurrentRunCount": None}, "maxConcurrentRunCount is missing"),
        ({"maxRunCount": "-1"}, "maxRunCount is -1"),
        ({"startTime": "2030-01-02T00:00:00Z", "endTime": "2030-01-01T00:00:00Z"}, "not after"),
        ({"endTime": "2020-01-01T00:00:00Z"}, "has passed"),
        ({"createPipelineJobRequest": None}, "createPipelineJobRequest is missing"),
        ({"crom": "0 3 * * *"}, "crom"),
    ],
    ids=str,
)
def test_an_invalid_schedule_is_refused(shared_service, body, change, message):
    wrong = {key: value for key, value in {**body, **change}.items() if value is not None}

    response = shared_service.call("POST", "schedules", wrong)

    assert response.status_code == 400
    assert message in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parent": "projects/other/locations/l"}, "parent is"),
        ({"pipelineJobId": "same"}, "pipelineJobId must be empty"),
        ({"pipelineJob": {}}, "pipelineSpec is missing"),
    ],
    ids=str,
)
def test_an_invalid_run_request_is_refused(shared_service, body, change, message):
    request = {**body["createPipelineJobRequest"], **change}

    response = shared_service.call(
        "POST", "schedules", {**body, "createPipelineJobRequest": request}
    )

    assert response.status_code == 400
    assert message in response.json()["error"]["message"]


def test_a_pipeline_that_cannot_be_run_is_refused_when_it_is_scheduled(shared_service, body):
    executors = body["createPipelineJobRequest"]["pipelineJob"]["pipelineSpec"]["deploymentSpec"]
    executors["executors"]["exec-note"]["container"]["command"] = ["echo", "hello"]

    response = shared_service.call("POST", "schedules", body)

    assert response.status_code == 400
    assert "--containers" in response.json()["error"]["message"]
    assert shared_service.do("GET", "schedules") == {"schedules": []}


def test_an_unknown_parameter_is_refused(shared_service, body):
    job = body["createPipelineJobRequest"]["pipelineJob"]
    job["runtimeConfig"]["parameterValues"] = {"txet": "hello"}

    response = shared_service.call("POST", "schedules", body)

    assert '"txet"' in response.json()["error"]["message"]


@contextmanager
def fast_service(root):
    """Serve with a fast clock until the last user ends, as for a command."""
    command = [sys.executable, "-m", "vertex_local.cli", "serve", "--root", str(root)]
    root.mkdir()
    user = Lease(root)
    process = subprocess.Popen(
        [*command, "--while-used", "--clock-speed", str(CLOCK_SPEED)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        url = process.stdout.readline().split()[-1]
        with requests.Session() as session:
            session.trust_env = False
            api = VertexApi(
                base_url=url, logging_url=url, project=PROJECT, location=LOCATION, session=session
            )
            yield api
    finally:
        user.close()
        process.terminate()
        process.communicate(timeout=WAIT_TIMEOUT_SECONDS)


def test_runs_start_on_time_once_the_service_stays(package, tmp_path):
    minutely = {**plan(package, tmp_path, max_runs=2, queue=True).body, "cron": "* * * * *"}
    with fast_service(tmp_path / "vertex") as api:
        name = api.post(f"{PARENT}/schedules", minutely)["name"]
        time.sleep(0.5)
        assert list(api.list_resources("pipelineJobs")) == [], "it may end at any moment"

        (tmp_path / "vertex" / ENDS_WHEN_UNUSED_FILE).unlink()
        wait_until(
            lambda: api.get(name)["state"] == "COMPLETED",
            "the start of two runs",
            timeout_seconds=WAIT_TIMEOUT_SECONDS,
        )

        runs = list(api.list_resources("pipelineJobs", filter=f'schedule_name="{name}"'))
        assert len(runs) == 2
        for run in runs:
            wait_until(
                lambda run=run: api.get(run["name"])["state"] == "PIPELINE_STATE_SUCCEEDED",
                f"the success of {run['name']}",
                timeout_seconds=WAIT_TIMEOUT_SECONDS,
            )
        last = api.get(name)["lastScheduledRunResponse"]
        assert last["runResponse"] == runs[1]["name"]
        for run in runs:
            [detail] = api.get(run["name"])["jobDetail"]["taskDetails"]
            said = detail["execution"]["metadata"]["output:Output"]
            assert re.sub("[^0-9]", "", said) == run["name"][-14:], "the time it was due"


def test_teardown_after_a_failure_keeps_the_other_runs_of_the_schedule(
    service, monkeypatch, upload, body
):
    monkeypatch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
    api = connect("demo", "us-central1")
    job = body["createPipelineJobRequest"]["pipelineJob"]
    tasks = job["pipelineSpec"]["root"]["dag"]["tasks"]
    tasks[UPLOAD] = tasks.pop("note")
    labels = [
        api.post(f"{PARENT}/pipelineJobs?pipelineJobId=night-{night}", job)["labels"]
        for night in (1, 2)
    ]
    labels = [{**one, STATE_LABEL: CANDIDATE} for one in labels]
    first = upload(labels=labels[0])
    upload(labels=labels[1], parentModel=first["model"])

    teardown(api, run="night-2")

    assert [v["labels"] for v in list_versions(api, first["model"])] == [labels[0]]


class Recorder(ThreadingHTTPServer):
    """Returns an empty object to every request, and records the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RecordingHandler)
        self.asked: list[tuple] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


EMPTY = {"@type": "type.googleapis.com/google.protobuf.Empty"}
DONE = json.dumps({"name": "operations/1", "done": True, "response": EMPTY}).encode()


class RecordingHandler(Handler):
    def _keep(self) -> None:
        body = self.body()
        parts = urlsplit(self.path)
        query = {k: v for k, v in parse_qs(parts.query).items() if not k.startswith("$")}
        self.server.asked.append((self.command, parts.path, query, json.loads(body or b"{}")))
        self.respond(200, DONE if self.command == "DELETE" else b"{}")

    do_GET = do_POST = do_PATCH = do_DELETE = _keep  # noqa: N815


@pytest.fixture
def recorder():
    with running(Recorder()) as server:
        yield server


def canonical(asked: list[tuple]) -> list[tuple]:
    """Return requests with bodies and masks in one spelling."""
    found = []
    for method, path, query, body in asked:
        message = types.Schedule.pb()()
        if "cron" in body:
            json_format.ParseDict(body, message)
        found.append((method, path, query, json_format.MessageToDict(message) or body))
    return found


def test_the_requests_are_those_of_the_official_client(recorder, body):
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.aiplatform_v1 import ScheduleServiceClient
    from google.protobuf import field_mask_pb2

    name = f"{PARENT}/schedules/7"
    there = {"name": name, "state": "ACTIVE"}
    with requests.Session() as session:
        session.trust_env = False
        api = VertexApi(
            base_url=recorder.url,
            logging_url="",
            project=PROJECT,
            location=LOCATION,
            session=session,
        )
        api.post(f"{PARENT}/schedules", body)
        schedules.ours(api)
        schedules.pause(api, there)
        schedules.resume(api, there, catch_up=True)
        schedules.delete(api, there)
        fields = ("cron", "maxRunCount")
        wanted = schedules.Wanted(
            body={**body, "maxRunCount": "4"}, is_paused=False, catch_up=False
        )
        schedules.apply_change(
            api,
            schedules.Change(
                action="update", name="y", fields=fields, wanted=wanted, existing=there
            ),
        )
    ours = canonical(recorder.asked)
    recorder.asked.clear()

    client = ScheduleServiceClient(
        transport="rest",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": recorder.url},
    )
    schedule = types.Schedule.from_json(json.dumps(body))
    client.create_schedule(parent=PARENT, schedule=schedule)
    client.list_schedules(parent=PARENT)
    client.pause_schedule(name=name)
    client.resume_schedule(name=name, catch_up=True)
    client.delete_schedule(name=name)
    changed = types.Schedule(name=name, cron=YEARLY, max_run_count=4)
    mask = field_mask_pb2.FieldMask(paths=["cron", "max_run_count"])
    client.update_schedule(schedule=changed, update_mask=mask)
    theirs = canonical(recorder.asked)

    # The official client repeats the name in the body, and is asked for no more here.
    for request in theirs:
        request[3].pop("name", None)
    assert ours == theirs
