"""Each shipped cluster file, and those of old tutorials, trains here, one process per machine."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.config.cluster_files import read_cluster
from vertex_local.tests.support.service import running_service

pytestmark = pytest.mark.timeout(180)
FILES = [
    *sorted(Path("configs/clusters").glob("*.yaml")),
    *sorted(Path("tests/components/plan_training/old_cluster_files").glob("*.yaml")),
]


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory):
    """The state folder of a service with a warm process."""
    folder = tmp_path_factory.mktemp("state")
    with running_service(folder / "vertex", "--preload", "tensorflow"):
        yield folder


@pytest.fixture
def submit(state_dir, examples_dir, capsys):
    """Run `jobs submit` with a cluster file; return its output."""

    def run(file, *options):
        examples = ["--examples-dir", str(examples_dir), "--name", file.stem]
        command = ["jobs", "submit", "mnist", "--state-dir", str(state_dir), *examples]
        options = ["--cluster", str(file), *options, "--", "--steps=8", "--batch-size=16"]
        assert main([*command, *options]) == 0
        return capsys.readouterr().out

    return run


def processes_of(request):
    """Return what the processes of a job depend on here: not machines, images, time or folder."""
    spec = json.loads(request[request.index("{") :])["jobSpec"]
    pools = [
        [pool["replicaCount"], pool["containerSpec"]["command"], pool["containerSpec"]["args"]]
        for pool in spec["workerPoolSpecs"]
    ]
    others = {name: value for name, value in spec["scheduling"].items() if name != "timeout"}
    return json.dumps([pools, others])


@pytest.fixture(scope="module")
def trained():
    """The roles of the jobs that have trained, by the processes that were requested."""
    return {}


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_shipped_cluster_trains(file, submit, trained, state_dir, capsys):
    request = processes_of(submit(file, "--dry-run"))
    if request not in trained:  # several files start the same processes
        job_id = re.search(r"job (\d+)", submit(file, "--wait"))[1]
        assert main(["jobs", "show", job_id, "--state-dir", str(state_dir)]) == 0
        replicas = set(re.findall(r"^([a-z]+)/(\d+) ", capsys.readouterr().out, re.M))
        assert (state_dir / f"runs/{file.stem}/model/saved_model.pb").is_file()
        trained[request] = Counter(role for role, _ in replicas)
    roles, cluster = trained[request], read_cluster(file)
    assert roles["chief"] + roles["worker"] == cluster.chief + cluster.workers
    assert roles["ps"] == cluster.parameter_servers
