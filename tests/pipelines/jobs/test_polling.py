"""Pauses between the requests of commands that wait."""

from types import SimpleNamespace

import pytest

from components.shared.vertex.api import EMULATOR_VARIABLE, connect
from components.teardown.teardown import cancel_jobs
from pipelines.jobs.log import follow_logs
from pipelines.resources.kinds import JOB
from pipelines.runs.view import follow

pytestmark = pytest.mark.fast

WAITERS = {
    "wait": lambda api: JOB.wait(api, "7"),
    "log": lambda api: list(
        follow_logs(api, JOB, "7", readers_of=lambda job: [], is_followed=True)
    ),
    "run": lambda api: list(follow(api, run="r")),
    "teardown": lambda api: cancel_jobs(api, [{"name": "customJobs/7", "state": "RUNNING"}]),
}


class FakeApi(SimpleNamespace):
    """A service whose jobs and runs end at the fifth request."""

    parent = "projects/p/locations/l"
    num_requests = 0

    def find(self, name):
        return self.get(name)

    def get(self, name):
        self.num_requests += 1
        prefix = "PIPELINE" if "pipelineJobs" in name else "JOB"
        return {"state": f"{prefix}_STATE_{'SUCCEEDED' if self.num_requests > 4 else 'RUNNING'}"}

    def post(self, path, body):
        return {}

    def list_resources(self, *_, **__):
        return []


@pytest.mark.parametrize("wait", WAITERS.values(), ids=WAITERS)
@pytest.mark.parametrize("min_seconds", [0.0, 5.0])
def test_a_wait_sends_no_more_requests_than_the_service_allows(wait, min_seconds, monkeypatch):
    pauses = []
    monkeypatch.setattr("time.sleep", pauses.append)

    wait(FakeApi(min_poll_seconds=min_seconds))

    assert len(pauses) == 4
    assert min(pauses) >= min_seconds
    assert max(pauses) <= max(min_seconds, 1.0)


def test_only_vertex_ai_limits_the_rate_of_requests(monkeypatch):
    monkeypatch.setattr("google.auth.default", lambda **_: (None, "p"))
    monkeypatch.delenv(EMULATOR_VARIABLE, raising=False)
    assert connect("p", "l").min_poll_seconds == 5.0

    monkeypatch.setenv(EMULATOR_VARIABLE, "127.0.0.1:1")
    assert connect("p", "l").min_poll_seconds == 0.0
