"""Requests of `trainyard schedule`, compared with the requests of Google's SDK."""

import json
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from google.cloud.aiplatform_v1 import types
from google.protobuf import json_format
from kfp import compiler, dsl

from components.shared.vertex.api import VertexApi
from pipelines.places.target import Target
from pipelines.schedules import differences as schedules
from pipelines.schedules.file import ScheduleFile
from pipelines.schedules.plan import Wanted, plan_schedule
from vertex_local.tests.support.http_server import Handler, running

PROJECT, LOCATION = "demo", "us-central1"
PARENT = f"projects/{PROJECT}/locations/{LOCATION}"
YEARLY = "TZ=Europe/Berlin 0 3 1 1 *"


@dsl.component(install_kfp_package=False, base_image="python:3.11")
def note(text: str) -> str:
    return text


@dsl.pipeline(name="notes")
def notes(text: str = "none"):
    note(text=f"{text} {dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER}")


@pytest.fixture
def body(tmp_path):
    """Request body of a schedule."""
    package = tmp_path / "notes.yaml"
    compiler.Compiler().compile(notes, str(package))
    file = ScheduleFile(
        path=tmp_path / "yearly.yaml",
        source=str(package),
        is_package=True,
        cron=YEARLY,
        settings={},
    )
    target = Target(
        project=PROJECT,
        location=LOCATION,
        pipeline_root=str(tmp_path / "root"),
        data_root="",
        state_dir=tmp_path,
    )
    return plan_schedule(file, target=target).body


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
        wanted = Wanted(body={**body, "maxRunCount": "4"}, is_paused=False, catch_up=False)
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
