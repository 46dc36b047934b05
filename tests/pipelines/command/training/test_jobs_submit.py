"""`trainyard jobs submit` with a service of its own and a real job."""

import json
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.jobs.examples import examples_of
from pipelines.places.target import local_target
from pipelines.projects.runs import find_run
from tests.support.data.evaluation import evaluate
from tests.support.processes.everything import EVERYTHING
from vertex_local.tests.support.forks import forks_with

pytestmark = pytest.mark.timeout(120)


def test_job_is_followed_to_its_end(examples_dir, tmp_path, temp_folder):
    where = ["--examples-dir", str(examples_dir), "--state-dir", str(tmp_path)]
    cluster = ["--cluster", "configs/clusters/single.yaml", "--name", "first", "--follow"]

    def jobs(*arguments: str) -> str:
        process = forks_with(*EVERYTHING).start(
            ["python", "-m", "pipelines.cli", "jobs", *arguments],
            log_path=tmp_path / "log",
            TRAINYARD_PRELOAD="tensorflow",
            VERTEX_EMULATOR_HOST=None,
        )
        output, _ = process.communicate(timeout=90)
        assert process.returncode == 0, output
        return output

    output = jobs("submit", "mnist", *where, *cluster, "--", "--steps=5", "--batch-size=32")

    assert "chief/0 step 5/5" in output
    assert "is SUCCEEDED" in output
    assert (tmp_path / "runs/first/model/saved_model.pb").is_file()
    assert not (tmp_path / "vertex/server.json").exists()
    assert list(temp_folder.iterdir()) == []
    output = jobs("evaluate", "first", "--json", "--state-dir", str(tmp_path))
    metrics = json.loads(output[output.index("{") : output.rindex("}") + 1])  # with stderr
    assert metrics["num_examples"] == 100
    assert (
        metrics["accuracy"]
        == evaluate(tmp_path / "runs/first/model", examples_dir).metrics["accuracy"]
    )


def test_the_examples_of_an_own_workload_are_prepared_without_a_cache_of_raw_data(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = [f"{number},{number % 7},{number % 2}\n" for number in range(60)]
    Path("rows.csv").write_text("".join(["id,visits,churned\n", *rows]))
    assert main(["new", "churn", "--table", "rows.csv", "--label", "churned"]) == 0
    examples = examples_of(find_run("churn"), local_target(tmp_path / "state"), examples_dir=None)
    examples.prepare()
    assert Path(examples.uri, "manifest.json").is_file()
