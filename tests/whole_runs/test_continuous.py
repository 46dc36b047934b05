"""Files of `trainyard new --ci`: their commands exist, and send what they should."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from pipelines.cli import main, parse

TIMEOUT_SECONDS = 60
IMAGES = "us-docker.pkg.dev/p/r/trainyard"
OF_FOLDER = f"trainyard image --project churn --repository {IMAGES}"


@pytest.fixture
def repository(tmp_path, monkeypatch, capsys):
    """A repository with a workload and its files, as the current folder."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{at},{at % 7},{'yes' if at % 7 > 2 else 'no'}" for at in range(600)]
    Path("customers.csv").write_text("\n".join(["customer_id,visits,churned", *rows]) + "\n")
    assert main(["new", "churn", "--table", "customers.csv", "--label", "churned", "--ci"]) == 0
    capsys.readouterr()
    return tmp_path


@pytest.fixture
def image(repository, capsys):
    """The image of the workload, as `trainyard image` prints it."""
    assert main(shlex.split(OF_FOLDER)[1:]) == 0
    return capsys.readouterr().out.strip()


@pytest.fixture
def called(tmp_path, monkeypatch, image):
    """Run lines of a shell whose programs only note their calls, and print the image."""
    programs, calls = tmp_path / "bin", tmp_path / "calls"
    programs.mkdir()
    for name in ("docker", "gcloud", "apt-get", "python", "trainyard"):
        program = programs / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> "$CALLS"\necho {image}\n')
        program.chmod(0o755)
    names = {"CALLS": str(calls), "IMAGES": IMAGES, "_IMAGES": IMAGES, "_SUBMIT": "yes"}
    for name, value in {**names, "PATH": f"{programs}:{os.environ['PATH']}"}.items():
        monkeypatch.setenv(name, value)

    def run(lines: str) -> list[str]:
        subprocess.run(
            ["bash", "-ceu", lines], check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS
        )
        return calls.read_text().splitlines()

    return run


@pytest.fixture
def requested(capsys):
    """Return the request of a call that starts a run."""

    def request_of(call: str) -> dict:
        words = [word for word in shlex.split(call)[2:] if word != "--wait"]
        assert main(["submit", *words, "--dry-run", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return request_of


def assert_waits_for_an_approval(request: dict) -> None:
    values = request["runtimeConfig"]["parameterValues"]
    assert json.loads(values["release"]) == {"approval": "required"}
    assert request["runtimeConfig"]["gcsOutputDirectory"] == "gs://my-bucket/runs"


def test_commands_of_github_check_run_and_submit(repository, called, requested, image):
    with Path("environments/dev.yaml").open("a") as file:
        file.write("set: {train.steps: 50, train.epochs: null}\n")
    workflow = yaml.safe_load(Path(".github/workflows/churn.yaml").read_text())
    assert workflow["name"] == "churn"
    jobs = [workflow["jobs"][name]["steps"] for name in ("check", "submit")]
    lines = [step["run"] for steps in jobs for step in steps if "run" in step]
    upload = jobs[0][-1]["with"]
    assert upload["path"] == ".trainyard/runs/latest/report.html"
    assert upload["include-hidden-files"] is True  # else upload-artifact finds none there

    calls = called("\n".join(lines).replace("$TRAINYARD", "trainyard.whl"))

    install, run, submit = "python -m pip install trainyard.whl", calls[3], calls[-1]
    assert calls == [
        f"{install} pytest",
        "python -m pytest churn",
        "trainyard check churn",
        "trainyard run churn --env dev",
        install,
        "gcloud auth configure-docker us-docker.pkg.dev --quiet",
        f"trainyard image --repository {IMAGES}",
        f"docker pull {image}",
        f"{OF_FOLDER} --build",
        OF_FOLDER,
        f"docker push {image}",
        OF_FOLDER,
        f"trainyard submit churn --env prod --wait --image {image}",
    ]
    values = requested(run)["runtimeConfig"]["parameterValues"]
    assert json.loads(values["train"])["steps"] == 50
    assert_waits_for_an_approval(requested(submit))
    assert parse(["check", "churn"])
    assert Path("churn/tests/test_churn.py").is_file()
    assert main(shlex.split(calls[8])[1:]) == 0
    assert f"docker build --tag {image} " in called("true")[-1]


def test_commands_of_cloud_build_submit(repository, called, requested):
    build = yaml.safe_load(Path("cloudbuild-churn.yaml").read_text())
    check, submit = (step["args"][1].replace("$$", "$") for step in build["steps"])
    calls = called((check + submit).replace("$_TRAINYARD", "trainyard.whl"))
    assert "trainyard run churn --env dev" in calls
    assert_waits_for_an_approval(requested(calls[-1]))


def test_environments_stay_and_other_files_are_never_overwritten(repository, capsys):
    (repository / "environments/prod.yaml").write_text("on: local\n")
    assert main(["new", "churn", "--ci"]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err
    for path in (".github/workflows/churn.yaml", "cloudbuild-churn.yaml"):
        (repository / path).unlink()
    assert main(["new", "churn", "--ci"]) == 0
    assert "note: environments/prod.yaml stays as it is" in capsys.readouterr().out
    assert (repository / "environments/prod.yaml").read_text() == "on: local\n"
    (repository / "my churn").mkdir()
    (repository / "my churn/workload.py").touch()
    for folder, message in (
        ("nowhere", "must be a folder with a workload.py"),
        ("my churn", "give the folder a name of letters"),
    ):
        assert main(["new", folder, "--ci"]) == 2
        assert message in capsys.readouterr().err
