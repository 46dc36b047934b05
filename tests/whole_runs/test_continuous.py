"""Files of `trainyard new --ci`: their commands run, and send what they should."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipelines.cli import main

TIMEOUT_SECONDS = 300
IMAGES = "us-docker.pkg.dev/p/r/trainyard"
SHIM = '#!/bin/sh\necho "$(basename "$0") $*" >> "$CALLS"\n'


@pytest.fixture
def repository(tmp_path, monkeypatch, capsys):
    """A repository with a workload and its files, as the current folder."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{at},{at % 7},{'yes' if at % 7 > 2 else 'no'}" for at in range(600)]
    Path("customers.csv").write_text("\n".join(["customer_id,visits,churned", *rows]) + "\n")
    assert main(["new", "churn", "--table", "customers.csv", "--label", "churned", "--ci"]) == 0
    capsys.readouterr()
    with Path("environments/dev.yaml").open("a") as file:
        file.write("set: {train.steps: 50, train.epochs: null, gate.baseline: none}\n")
    return tmp_path


@pytest.fixture
def shell(tmp_path):
    """Run lines of a shell with this environment's commands; Docker and gcloud only note calls."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("docker", "gcloud", "apt-get"):
        (programs / name).write_text(SHIM)
        (programs / name).chmod(0o755)
    calls = tmp_path / "calls"
    calls.touch()
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    names = {"CALLS": str(calls), "PATH": path, "IMAGES": IMAGES, "_IMAGES": IMAGES}

    def run(lines: str) -> str:
        done = subprocess.run(
            ["bash", "-ceu", lines],
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            env={**os.environ, **names, "_SUBMIT": "yes"},
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}{done.stderr}"
        return done.stdout

    run.calls = calls
    return run


def commands_of(job: dict) -> list[str]:
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands[0].startswith('python -m pip install "$TRAINYARD"')
    return commands[1:]


@pytest.mark.timeout(400)
def test_commands_of_github_check_run_and_submit(repository, shell):
    workflow = yaml.safe_load((repository / ".github/workflows/churn.yaml").read_text())
    assert workflow["name"] == "churn"
    for command in commands_of(workflow["jobs"]["check"]):
        shell(command)
    upload = workflow["jobs"]["check"]["steps"][-1]["with"]
    assert (repository / upload["path"]).is_file()
    assert upload["include-hidden-files"] is True  # else upload-artifact finds none there

    *before, submit = commands_of(workflow["jobs"]["submit"])
    for command in before:
        shell(command)
    request = json.loads(shell(submit.replace("--wait", "--dry-run --json")))
    _assert_waits_for_an_approval(request)
    calls = shell.calls.read_text()
    assert "gcloud auth configure-docker us-docker.pkg.dev --quiet" in calls
    assert f"docker push {IMAGES}:src-" in calls


def test_commands_of_cloud_build_submit(repository, shell):
    build = yaml.safe_load((repository / "cloudbuild-churn.yaml").read_text())
    [_, submit] = (step["args"][1].replace("$$", "$") for step in build["steps"])
    lines = [line for line in submit.splitlines() if "pip install" not in line]
    output = shell("\n".join(lines).replace("--wait", "--dry-run --json"))
    _assert_waits_for_an_approval(json.loads(output[output.index("{\n") :]))


def _assert_waits_for_an_approval(request: dict) -> None:
    values = request["runtimeConfig"]["parameterValues"]
    assert json.loads(values["release"]) == {"approval": "required"}
    assert request["runtimeConfig"]["gcsOutputDirectory"] == "gs://my-bucket/runs"


def test_environments_stay_and_other_files_are_never_overwritten(repository, capsys):
    (repository / "environments/prod.yaml").write_text("on: local\n")
    assert main(["new", "churn", "--ci"]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err
    for path in (".github/workflows/churn.yaml", "cloudbuild-churn.yaml"):
        (repository / path).unlink()
    assert main(["new", "churn", "--ci"]) == 0
    assert "note: environments/prod.yaml stays as it is" in capsys.readouterr().out
    assert (repository / "environments/prod.yaml").read_text() == "on: local\n"


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("nowhere", "must be a folder with a workload.py"),
        ("my churn", "give the folder a name of letters"),
    ],
)
def test_a_folder_that_cannot_be_named_is_refused(repository, capsys, folder, message):
    (repository / "my churn").mkdir()
    (repository / "my churn/workload.py").touch()
    assert main(["new", folder, "--ci"]) == 2
    assert message in capsys.readouterr().err
