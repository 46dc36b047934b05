"""Systems that refuse private networks: the cluster runs, with warnings."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from components.shared.vertex.api import EMULATOR_VARIABLE, connect
from components.shared.vertex.labels import RUN_LABEL
from pipelines.cli import main
from pipelines.places.target import DEFAULT_LOCATION, LOCAL_PROJECT
from pipelines.runs.view import TrainingLog
from vertex_local.tests.support.jobs import pool

pytestmark = [pytest.mark.timeout(120), pytest.mark.linux("network namespaces")]
WAIT_SECONDS = 60
JOBS = f"projects/{LOCAL_PROJECT}/locations/{DEFAULT_LOCATION}/customJobs"
# A user namespace of its own, in which no network namespace can be made: namespaces(7).
REFUSING = """
import runpy, sys
open("/proc/sys/user/max_net_namespaces", "w").write("0")
sys.argv[0] = "vertex-local"
runpy.run_module("vertex_local.cli", run_name="__main__")
"""
UNSHARE = ["unshare", "--user", "--map-root-user", sys.executable, "-c", REFUSING]
WARNING = "other machines can reach the ports"


@contextmanager
def refusing_service(root):
    """Serve without network namespaces; yield the address."""
    process = subprocess.Popen(
        [*UNSHARE, "serve", "--root", str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = process.stdout.readline()
        if not said and "unshare failed" in (errors := process.communicate()[1]):
            pytest.skip(f"no user namespaces here: {errors.strip()}")
        yield said.split("http://")[1].strip()
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_SECONDS)


@pytest.fixture
def api(tmp_path, monkeypatch):
    """The client of a service without network namespaces."""
    with refusing_service(tmp_path / "vertex") as host:
        monkeypatch.setenv(EMULATOR_VARIABLE, host)
        monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
        yield connect(LOCAL_PROJECT, DEFAULT_LOCATION)


def start_job(api, *, num_workers: int) -> str:
    """Return the id of a run's job."""
    first = pool("print('step 1/2 loss 1')")
    body = {
        "displayName": "trained",
        "labels": {RUN_LABEL: f"run-{num_workers}"},
        "jobSpec": {
            "workerPoolSpecs": [first, {**first, "replicaCount": num_workers}][: 1 + num_workers]
        },
    }
    return api.post(JOBS, body)["name"].rpartition("/")[2]


def test_all_views_warn_of_a_cluster_without_a_private_network(api, capsys):
    job_id, single = (start_job(api, num_workers=count) for count in (1, 0))

    assert main(["jobs", "wait", job_id, "--timeout", "60s"]) == 0, "it runs all the same"
    assert f"trainyard: warning: {WARNING}" in capsys.readouterr().err

    [warning] = api.get(f"{JOBS}/{job_id}/replicas")["warnings"]
    assert warning.startswith(WARNING)
    assert os.strerror(28) in warning, "the reason"
    assert main(["jobs", "show", job_id]) == 0
    assert f"warning  {warning}" in capsys.readouterr().out.splitlines()
    assert TrainingLog(api, run="run-1").warnings() == (warning,)
    assert main(["jobs", "wait", single, "--timeout", "60s"]) == 0
    assert api.get(f"{JOBS}/{single}/replicas")["warnings"] == []
