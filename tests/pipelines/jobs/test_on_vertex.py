"""Requests of `trainyard jobs --on vertex`, compared with the paths of Vertex AI's REST API.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.customJobs
https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
"""

import io
import json
from dataclasses import dataclass, field

import pytest
import requests

from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import SUBMISSION_LABEL
from pipelines import cli

pytestmark = pytest.mark.fast

VERTEX = "https://us-central1-aiplatform.googleapis.com"
JOBS = "/v1/projects/p/locations/us-central1/customJobs"
LOGS = "https://logging.googleapis.com/v2/entries:list"
IMAGE = f"us-docker.pkg.dev/p/r/i@sha256:{'0' * 64}"


@dataclass
class FakeVertex:
    """Fake of Vertex AI that records requests."""

    states: list[str] = field(default_factory=lambda: ["SUCCEEDED"])
    entries: list[list[dict]] = field(default_factory=list)
    requests: list[tuple[str, str, object]] = field(default_factory=list)

    def request(self, method, url, *, json=None, params=None, **_):
        self.requests.append((method, url.removeprefix(VERTEX), json or params or None))
        code, answer = self._answer(url, json)
        response = requests.Response()
        response.status_code, response.raw = code, io.BytesIO(answer.encode())
        response.request = requests.Request(method, url).prepare()
        return response

    def _answer(self, url, body):
        if url == LOGS:
            newest = body["orderBy"].endswith("desc")
            page = [entry(9, "the end")] if newest else self.entries.pop(0) if self.entries else []
            return 200, json.dumps({"entries": page} if page else {})
        if url.endswith("/replicas"):
            return 404, "<html>Error 404 (Not Found)!!1</html>"
        return 200, json.dumps(self._job())

    def _job(self):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        pools = [{"replicaCount": "1"}, {"replicaCount": "2"}]
        return {
            "name": f"{JOBS.removeprefix('/v1/')}/7",
            "displayName": "n",
            "state": f"JOB_STATE_{state}",
            "createTime": "2026-01-31T12:00:00Z",
            "jobSpec": {"workerPoolSpecs": pools},
            "error": {"message": "out of time"} if state == "FAILED" else {},
        }


def entry(number, text, task="workerpool0-0"):
    return {
        "timestamp": f"2026-01-31T12:00:0{number}Z",
        "insertId": f"i{number}",
        "resource": {"type": "ml_job", "labels": {"task_name": task, "job_id": "7"}},
        "jsonPayload": {"message": text},
    }


@pytest.fixture
def vertex():
    return FakeVertex()


@pytest.fixture
def trainyard(vertex, monkeypatch, tmp_path, capsys):
    """Run `trainyard jobs … --on vertex`; return its exit code, output and error output."""

    def connect(project, location):
        logging_url = LOGS.removesuffix("/v2/entries:list")
        return VertexApi(
            base_url=VERTEX,
            logging_url=logging_url,
            project=project,
            location=location,
            session=vertex,
        )

    monkeypatch.setattr("pipelines.places.target.connect", connect)
    monkeypatch.setattr("pipelines.resources.kinds.POLL_SECONDS", 0.01)

    def run(*arguments):
        where = ["--on", "vertex", "--project", "p", "--state-dir", str(tmp_path)]
        cut = arguments.index("--") if "--" in arguments else len(arguments)
        code = cli.main(["jobs", *arguments[:cut], *where, *arguments[cut:]])
        return (code, *capsys.readouterr())

    return run


def test_submit_posts_a_custom_job_which_a_dry_run_prints(trainyard, vertex):
    words = ["submit", "mnist", "--timeout", "30m", "--examples-dir", "gs://b/e", "--name", "first"]
    words += ["--pipeline-root", "gs://b/r", "--image", IMAGE]
    code, dry, error = trainyard(*words, "--dry-run", "--", "--steps=5")
    assert (code, vertex.requests, error) == (0, [], f"POST {JOBS}\n")
    code, output, _ = trainyard(*words, "--", "--steps=5")

    assert code == 0
    assert output.startswith("job 7 (first): 1 chief + 2 worker + 1 ps, output in gs://b/r/first")
    [(method, path, body)] = vertex.requests
    assert body.pop("labels").keys() == {SUBMISSION_LABEL}  # new for each request
    assert (method, path, body) == ("POST", JOBS, json.loads(dry))
    spec = body["jobSpec"]
    assert body["displayName"] == "first"
    assert spec["baseOutputDirectory"] == {"outputUriPrefix": "gs://b/r/first"}
    assert spec["scheduling"]["timeout"] == "1800s"
    args = spec["workerPoolSpecs"][1]["containerSpec"]["args"]
    assert {"--examples-dir=gs://b/e", "--steps=5"} <= set(args)
    assert not any(arg.startswith("--epochs") for arg in args)


def test_followed_log_continues_and_ends_with_the_job(trainyard, vertex):
    vertex.states = ["RUNNING", "RUNNING", "SUCCEEDED"]
    first, second = entry(1, "chief/0 begins"), entry(2, "a step", "workerpool1-1")
    vertex.entries = [[first], [first, second], [second, entry(3, "done")]]

    code, output, _ = trainyard("logs", "7", "--follow")

    assert code == 0
    assert output.splitlines() == ["chief/0 begins", "worker/1 a step", "chief/0 done"]
    filters = [body["filter"] for _, path, body in vertex.requests if path == LOGS]
    assert [text.partition(" AND timestamp")[2] for text in filters] == [
        "",
        '>="2026-01-31T12:00:01Z"',
        '>="2026-01-31T12:00:02Z"',
    ]


def test_show_has_the_last_line_of_each_replica(trainyard):
    code, output, _ = trainyard("show", "7")

    assert code == 0
    shown = [line.split() for line in output.splitlines()]
    assert [line[0] for line in shown[-3:]] == ["chief/0", "worker/0", "worker/1"]
    assert all(line[-2:] == ["the", "end"] for line in shown[-3:])


def test_submit_reports_missing_options(trainyard):
    for option, message in (
        ("--pipeline-root=gs://b/r", "needs --examples-dir gs://BUCKET/FOLDER"),
        ("--examples-dir=gs://b/e", "needs a bucket"),
    ):
        code, _, error = trainyard("submit", "mnist", option)
        assert (code, message in error) == (2, True)


@pytest.mark.parametrize(
    ("states", "code", "said"),
    [
        (["RUNNING", "SUCCEEDED"], 0, "job 7 is SUCCEEDED"),
        (["RUNNING", "FAILED"], 1, "trainyard: out of time"),
        (["CANCELLED"], 1, "job 7 is CANCELLED"),
        (["RUNNING"], 124, "job 7 is RUNNING after 1 s"),
    ],
)
def test_wait_returns_the_outcome_as_exit_code(trainyard, vertex, states, code, said):
    vertex.states = states

    answered, output, error = trainyard("wait", "7", "--timeout", "1s")

    assert answered == code
    assert said in output + error


def test_wait_that_is_interrupted_leaves_the_job(trainyard, vertex, monkeypatch):
    vertex.states = ["RUNNING"]

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    assert trainyard("wait", "7")[0] == 130
    assert [method for method, _, _ in vertex.requests] == ["GET"]
