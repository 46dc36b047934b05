"""Requests that the real service has logged, watched by the command and by a run."""

import json
import queue

import pytest

from components.endpoint.watch.step import VERDICT_LABEL
from components.shared.vertex.api import EMULATOR_VARIABLE, connect
from pipelines.cli import main
from pipelines.places.target import DEFAULT_LOCATION, LOCAL_PROJECT
from tests.support.data.churn import WORKLOAD, rows, statistics_of
from trainer.workloads.description import describe
from vertex_local.tests.support.http_server import Handler, serving
from vertex_local.tests.support.service import (
    PRELOAD_KFP,
    container_spec,
    deployment,
    running_service,
)

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def api(tmp_path, monkeypatch):
    """Serve a model of the table at an endpoint that has logged 120 instances."""
    folder = tmp_path / "artifact"
    folder.mkdir()
    (folder / "workload.json").write_text(json.dumps(describe(WORKLOAD)))
    (folder / "statistics.json").write_text(json.dumps(statistics_of(rows(2000, seed=1))))
    with running_service(tmp_path / "vertex", *PRELOAD_KFP) as service:
        monkeypatch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
        monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
        found = connect(LOCAL_PROJECT, DEFAULT_LOCATION)
        model = {
            "displayName": "churn",
            "artifactUri": str(folder),
            "containerSpec": container_spec("classes"),
        }

        def do(path, body):
            return found.wait(found.post(f"{found.parent}/{path}", body), timeout_seconds=30)

        name = do("models:upload", {"model": model})["model"]
        log = {"enabled": True, "samplingRate": 1.0}
        given = {"displayName": "churn", "predictRequestResponseLoggingConfig": log}
        endpoint = do("endpoints", given)["name"]
        deployed = deployment(name, trafficSplit={"0": 100})
        do(f"endpoints/{endpoint.rpartition('/')[2]}:deployModel", deployed)
        for seed in range(4):
            instances = rows(30, seed=seed + 50, gold=0.9)
            found.post(f"{endpoint}:predict", {"instances": instances})
        yield found


def test_changed_requests_fail_the_command_and_the_run(api, tmp_path, capfd):
    assert main(["endpoints", "watch", "churn", "--json"]) == 3
    found = json.loads(capfd.readouterr().out)
    assert main(["endpoints", "watch", "churn"]) == 3
    head, first = (line.split()[:2] for line in capfd.readouterr().out.splitlines()[:2])
    assert (head, first) == (["FEATURE", "AGAINST"], ["plan", "training"])
    assert main(["endpoints", "watch", "churn", "--threshold", "psi"]) == 2
    assert found["num_instances"] == 120
    assert [one["feature"] for one in found["findings"] if one["verdict"] == "skew"] == ["plan"]

    posted: queue.Queue[bytes] = queue.Queue()

    class Hook(Handler):
        def do_POST(self):
            posted.put(self.body())
            self.respond(200, b"{}")

    dist = str(tmp_path / "dist")
    assert main(["compile", "--pipeline", "watch-endpoint", "--output-dir", dist]) == 0
    with serving(Hook) as address:
        settings = ["endpoint_name=churn", f"on_failure_url=http://{address}/hook"]
        words = [word for setting in settings for word in ("--set", setting)]
        assert main(["submit", f"{dist}/watch-endpoint.yaml", "--wait", *words]) == 1
    summary = json.loads(posted.get(timeout=10))
    assert summary["outcome"] == "failed"
    assert "the requests of churn have changed: skew of plan" in summary["error"]
    [endpoint] = api.list_resources("endpoints")
    assert endpoint["labels"][VERDICT_LABEL] == "skew"
    page = api.session.get(f"{api.base_url}/endpoints", timeout=10).text
    assert VERDICT_LABEL in page
