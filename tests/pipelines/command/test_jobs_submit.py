"""`trainyard jobs submit` with a service of its own and a real job."""

import pytest

from pipelines.cli import main

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def submit(examples_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINYARD_PRELOAD", "tensorflow")

    def run(*arguments):
        where = ["--examples-dir", str(examples_dir), "--state-dir", str(tmp_path)]
        cluster = ["--cluster", "configs/clusters/single.yaml", "--name", "first"]
        return main(["jobs", "submit", "mnist", *where, *cluster, *arguments])

    return run


def test_job_is_followed_to_its_end(submit, tmp_path, temp_folder, capsys):
    assert submit("--follow", "--", "--steps=20", "--batch-size=32") == 0

    output = capsys.readouterr().out
    assert "chief/0 step 20/20" in output
    assert "is SUCCEEDED" in output
    assert (tmp_path / "runs/first/model/saved_model.pb").is_file()
    assert not (tmp_path / "vertex/server.json").exists()
    assert list(temp_folder.iterdir()) == []
