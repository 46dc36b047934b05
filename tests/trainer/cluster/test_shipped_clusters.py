"""Each shipped cluster file, and those of old tutorials, trains here, one process per machine."""

import re
from collections import Counter
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.config import read_cluster
from pipelines.target.local_service import local_service

pytestmark = pytest.mark.timeout(180)
FILES = [
    *sorted(Path("configs/clusters").glob("*.yaml")),
    *sorted(Path("tests/components/plan_training/old_cluster_files").glob("*.yaml")),
]


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory):
    """The state folder of a service with a warm process."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINYARD_PRELOAD", "tensorflow")
        with local_service(folder / "vertex"):
            yield folder


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_shipped_cluster_trains(file, state_dir, examples_dir, capsys):
    where = ["--state-dir", str(state_dir)]
    examples = ["--examples-dir", str(examples_dir), "--name", file.stem]
    trainer = ["--", "--steps=8", "--batch-size=16"]
    command = ["jobs", "submit", "mnist", *where, *examples, "--cluster", str(file), "--wait"]
    assert main([*command, *trainer]) == 0
    job_id = re.search(r"job (\d+)", capsys.readouterr().out)[1]
    assert main(["jobs", "show", job_id, *where]) == 0

    replicas = set(re.findall(r"^([a-z]+)/(\d+) ", capsys.readouterr().out, re.M))
    roles = Counter(role for role, _ in replicas)
    cluster = read_cluster(file)
    assert roles["chief"] + roles["worker"] == cluster.chief + cluster.workers
    assert roles["ps"] == cluster.parameter_servers
    assert (state_dir / f"runs/{file.stem}/model/saved_model.pb").is_file()
