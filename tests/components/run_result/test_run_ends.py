"""The exit task: `summary.json`, and the webhook on failure."""

import base64
import json
import queue
import re
import socket
import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import NamedTuple

import google.auth
import pytest
from google.auth.credentials import AnonymousCredentials
from kfp import dsl

from components.run_result import webhook
from components.run_result.summary import summarize
from components.run_result.webhook import post_summary
from components.teardown.component import teardown
from vertex_local.tests.support.http_server import Handler, running, serving
from vertex_local.tests.support.kills import kill_all, kill_runner
from vertex_local.tests.support.pipeline_runs import STEP, Runs
from vertex_local.tests.support.pipeline_steps import hang
from vertex_local.tests.support.service import PROJECT_AND_LOCATION, running_service

pytestmark = [pytest.mark.usefixtures("temp_folder"), pytest.mark.timeout(120)]
PRELOAD = ("--preload", "kfp.local,kfp.dsl.executor_main,components.teardown.ending")


@dsl.component(**STEP)
def evaluate(verdict: str, metrics: dsl.Output[dsl.Metrics]) -> NamedTuple(
    "Outputs", [("verdict", str), ("reasons", str), ("stop", str)]
):
    metrics.log_metric("accuracy", 0.25)
    if verdict == "broken":
        raise ValueError("the data is bad")
    stop = "waiting: a person must approve it" if verdict == "waits" else ""
    return (verdict, "accuracy 0.25 is below 0.9", stop)


@dsl.pipeline(name="nightly")
def nightly(
    folder: str,
    verdict: str,
    on_failure_url: str = "",
    train: str = "{}",
    report_success: bool = False,
):
    exit_task = teardown(
        run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER,
        keep_endpoint=False,
        on_failure_url=on_failure_url,
        report_success=report_success,
        **PROJECT_AND_LOCATION,
    ).set_caching_options(False)
    with dsl.ExitHandler(exit_task, name="run"):
        judged = evaluate(verdict=verdict)
        with dsl.If(judged.outputs["verdict"] == "hangs", name="if-hangs"):
            hang(folder=folder)


class Hook(ThreadingHTTPServer):
    """Webhook that records requests; `answer` is its status code, or `drips`."""

    daemon_threads = True

    def __init__(self, answer: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.received: queue.Queue[dict] = queue.Queue()
        self.is_over = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/services/SECRET"

    def take(self) -> dict:
        return self.received.get(timeout=30)


class _Handler(Handler):
    server: Hook

    def do_POST(self) -> None:
        self.server.received.put(json.loads(self.body()))
        if self.server.answer == "drips":  # one byte at a time, so that no read times out
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            while not self.server.is_over.wait(0.2):
                self.wfile.write(b"x")
            return
        self.respond(int(self.server.answer), b"")

    def end_headers(self) -> None:
        self.send_header("Location", "http://127.0.0.1:1/")
        super().end_headers()


@contextmanager
def hook(answer: str = "200"):
    with running(Hook(answer)) as server:
        yield server
        server.is_over.set()


@pytest.fixture(scope="module")
def warm_service(tmp_path_factory):
    with running_service(tmp_path_factory.mktemp("warm") / "vertex", *PRELOAD) as running:
        yield running


@pytest.fixture
def runs(warm_service, tmp_path):
    return Runs(warm_service, tmp_path)


def start(runs: Runs, verdict: str, server: Hook, **parameters: str) -> dict:
    values = {"folder": str(runs.folder), "verdict": verdict, "on_failure_url": server.url}
    job = runs.submit(nightly, parameterValues=values | parameters)
    if verdict == "hangs":
        runs.pids()
    return job


def written(job: dict) -> dict:
    """Read the summary of a run from the run's folder."""
    [detail] = [d for d in job["jobDetail"]["taskDetails"] if d["taskName"] == "teardown"]
    [artifact] = detail["outputs"]["summary"]["artifacts"]
    root = job["runtimeConfig"]["gcsOutputDirectory"]
    run = job["name"].rpartition("/")[2]
    assert artifact["uri"] == f"{root}/{run}/summary.json"
    with open(artifact["uri"], encoding="utf-8") as file:
        return json.load(file)


def assert_same(job: dict, found: dict) -> None:
    """Check that file and API agree, except on the end of the run and of its exit task."""
    now = json.loads(summarize(job).to_json())
    assert found.pop("tasks")[:-1] == now.pop("tasks")[:-1]
    for name in ("ended", "seconds"):
        found.pop(name), now.pop(name)
    assert found == now


@pytest.mark.parametrize(
    ("verdict", "asked", "outcome", "is_posted"),
    [
        ("failed", False, "gate-failed", True),
        ("broken", False, "failed", True),
        ("passed", False, "succeeded", False),
        ("passed", True, "succeeded", True),
        ("waits", False, "waiting", True),
    ],
)
def test_a_run_writes_its_summary_and_posts_it_if_somebody_is_to_know(
    runs, verdict, asked, outcome, is_posted
):
    settings = {"train": '{"epochs": 5}', "report_success": asked}
    with hook() as server:
        job = runs.wait(start(runs, verdict, server, **settings))
        found = written(job)
        received = server.take() if is_posted else None

        assert server.received.empty()
    assert found["outcome"] == outcome
    assert found["settings"]["train.epochs"] == 5
    assert "SECRET" not in json.dumps(found)
    if received:
        assert re.match(f"{found['run']}: {outcome}(: |$)", received.pop("text"))
        assert received == found
    assert_same(job, found)


def test_a_cancelled_run_writes_and_posts_its_summary(runs):
    with hook() as server:
        job = start(runs, "hangs", server)
        runs.service.do("POST", f"/v1/{job['name']}:cancel", {})
        job = runs.wait(job)

        assert server.take()["outcome"] == "cancelled"
    found = written(job)
    assert found["outcome"] == "cancelled"
    assert_same(job, found)


def test_a_run_with_a_killed_runner_writes_and_posts_its_summary(runs):
    with hook() as server:
        job = start(runs, "hangs", server)
        kill_runner(runs, job)
        assert_interrupted(runs, job, server)


def test_a_run_with_all_processes_killed_writes_and_posts_its_summary(tmp_path, temp_folder):
    with hook() as server, running_service(tmp_path / "vertex", *PRELOAD) as service:
        runs = Runs(service, tmp_path)
        job = start(runs, "hangs", server)
        kill_all(runs.service)
        service.start()
        assert_interrupted(runs, job, server)


def assert_interrupted(runs: Runs, job: dict, server: Hook) -> dict:
    job = runs.wait(job)
    assert server.take()["outcome"] == "interrupted"
    found = written(job)
    assert found["outcome"] == "interrupted"
    assert found["error"].startswith("interrupted: ")
    assert found["metrics"] == {"accuracy": 0.25}
    assert_same(job, found)
    return job


def test_a_run_that_ends_with_its_service_is_interrupted_not_cancelled(tmp_path, temp_folder):
    with hook() as server, running_service(tmp_path / "vertex", *PRELOAD) as service:
        runs = Runs(service, tmp_path)
        job = start(runs, "hangs", server)
        service.stop()
        service.start()
        job = assert_interrupted(runs, job, server)

    assert job["state"] == "PIPELINE_STATE_CANCELLED"
    assert written(job)["error"] == job["error"]["message"]


@pytest.mark.parametrize("answer", ["dead", "500"])
def test_a_failing_webhook_is_a_warning_and_does_not_fail_the_run(runs, answer):
    with hook("500") as server:
        if answer == "dead":
            server.url = "http://127.0.0.1:1/SECRET"
        job = runs.wait(start(runs, "failed", server))

    assert job["state"] == "PIPELINE_STATE_SUCCEEDED"
    found = written(job)
    [warning] = found["warnings"]
    assert warning.startswith("the webhook http://127.0.0.1/… ")
    assert_same(job, found)


@pytest.mark.parametrize("answer", ["drips", "silent"])
def test_a_slow_webhook_is_abandoned_after_the_timeout(answer):
    with hook("drips") as server, socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x" if answer == "silent" else server.url
        problem = post_summary(url, "{}", timeout_seconds=0.5)

    assert "0.5 s" in problem


@pytest.fixture
def secret_manager(monkeypatch):
    """Serve the secret `hook` to anonymous credentials; return its content, which is empty."""
    secret = {}

    class Secrets(Handler):
        def do_GET(self) -> None:
            is_known = self.path == "/v1/projects/p/secrets/hook/versions/latest:access"
            data = base64.b64encode(secret["address"].encode()).decode()
            body = json.dumps({"payload": {"data": data}}).encode()
            self.respond(200 if is_known else 403, body)

    monkeypatch.setattr(google.auth, "default", lambda **_: (AnonymousCredentials(), "p"))
    with serving(Secrets) as host:
        monkeypatch.setattr(webhook, "SECRET_MANAGER", f"http://{host}/v1")
        yield secret


@pytest.mark.parametrize("place", ["env:HOOK", "projects/p/secrets/hook/versions/latest"])
def test_the_address_of_a_webhook_is_read_from_its_place(
    secret_manager, monkeypatch, caplog, place
):
    with hook() as server, caplog.at_level("INFO"):
        monkeypatch.setenv("HOOK", f"{server.url}\n")
        secret_manager["address"] = server.url

        assert post_summary(place, '{"text": "bad"}') == ""

        assert server.take() == {"text": "bad"}
    assert place in caplog.text
    assert "SECRET" not in caplog.text


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("env:NOWHERE", "has no variable NOWHERE"),
        ("env:HOOK", "its value is not a web address"),
        ("projects/p/secrets/hook/versions/latest", "its value is not a web address"),
        ("projects/p/secrets/other/versions/1", "HTTP 403; the run's account needs the role"),
    ],
)
def test_an_address_that_cannot_be_read_is_a_warning_without_it(
    secret_manager, monkeypatch, place, problem
):
    secret_manager["address"] = "ftp://SECRET"
    monkeypatch.setenv("HOOK", "ftp://SECRET")

    found = post_summary(place, "{}")

    assert found.startswith(f"the webhook {place} did not take the run's summary: ")
    assert problem in found
    assert "SECRET" not in found


def test_a_redirect_of_a_webhook_is_not_followed():
    with hook("302") as server:
        assert post_summary(server.url, "{}").endswith("HTTP 302")
        assert server.take() == {}
