"""`trainyard jobs submit` with a service of its own and a real job."""

import pytest

from tests.support.processes.everything import EVERYTHING
from vertex_local.tests.support.forks import forks_with

pytestmark = pytest.mark.timeout(120)


def test_job_is_followed_to_its_end(examples_dir, tmp_path, temp_folder):
    where = ["--examples-dir", str(examples_dir), "--state-dir", str(tmp_path)]
    cluster = ["--cluster", "configs/clusters/single.yaml", "--name", "first", "--follow"]
    process = forks_with(*EVERYTHING).start(
        [
            *["python", "-m", "pipelines.cli", "jobs", "submit", "mnist", *where, *cluster],
            *["--", "--steps=20", "--batch-size=32"],
        ],
        log_path=tmp_path / "log",
        TRAINYARD_PRELOAD="tensorflow",
        VERTEX_EMULATOR_HOST=None,
    )

    output, _ = process.communicate(timeout=90)

    assert process.returncode == 0, output
    assert "chief/0 step 20/20" in output
    assert "is SUCCEEDED" in output
    assert (tmp_path / "runs/first/model/saved_model.pb").is_file()
    assert not (tmp_path / "vertex/server.json").exists()
    assert list(temp_folder.iterdir()) == []
