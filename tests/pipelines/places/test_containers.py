"""Checks of `--containers` before anything starts; needs no Docker."""

import argparse
import re
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.command.target_options import mounts_of
from pipelines.package.image import default_image
from pipelines.places.target import local_target
from vertex_local.client import LocalService
from vertex_local.tests.support.service import running_service

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """Put a fake `docker` onto PATH."""

    def put(script):
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "docker").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "docker").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return put


@pytest.mark.parametrize("command", ["run", "submit", "jobs submit"])
def test_missing_image_is_reported(docker, tmp_path, examples_dir, capsys, command):
    docker("echo No such image: it >&2; exit 1")
    data = ["--examples-dir", str(examples_dir)] if command == "jobs submit" else []
    where = ["--state-dir", str(tmp_path / "state"), *data]

    code = main([*command.split(), "mnist", "--containers", *where])

    assert code == 2
    error = capsys.readouterr().err
    assert default_image() in error
    assert "make image" in error
    assert not (tmp_path / "state").exists()


def test_missing_image_of_a_folder_is_reported(docker, tmp_path, capsys):
    docker("echo No such image: it >&2; exit 1")
    (tmp_path / "churn").mkdir()
    (tmp_path / "churn/workload.py").write_text("from trainer.workloads.mnist import workload\n")
    where = ["--containers", "--state-dir", str(tmp_path / "state")]
    assert main(["run", f"{tmp_path}/churn", *where]) == 2
    error = capsys.readouterr().err
    assert re.search(rf"{default_image()}-churn-[0-9a-f]{{12}} is not on this machine", error)
    assert "make image PROJECT=FOLDER" in error


@pytest.fixture
def examples_dir(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    return tmp_path


def test_containers_refuse_a_service_with_missing_mounts(docker, tmp_path, capsys):
    docker("exit 0")
    with running_service(tmp_path / "vertex", "--containers", f"--mount={tmp_path}/bin") as service:
        code = main(["run", "mnist", "--containers", "--state-dir", str(tmp_path)])

    assert code == 1
    error = capsys.readouterr().err
    assert re.search(rf"{service.url} runs containers .*{tmp_path};", error)


def test_containers_refuse_a_service_of_processes(docker, service, capsys):
    docker("exit 0")

    code = main(["run", "mnist", "--containers", "--state-dir", str(service.root.parent)])

    assert code == 1
    error = capsys.readouterr().err
    assert f"the service at {service.url} runs processes" in error
    assert f"vertex-local stop --root {service.root}" in error


def test_missing_docker_is_reported_with_the_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))

    code = main(["run", "mnist", "--containers", "--state-dir", str(tmp_path / "state")])

    assert code == 1
    assert "`docker` is not on PATH; install it" in capsys.readouterr().err


def test_containers_option_is_refused_on_vertex(capsys):
    where = ["--on", "vertex", "--project", "p", "--pipeline-root", "gs://bucket/runs"]
    image = ["--image", "us-docker.pkg.dev/p/r/trainyard:1"]

    assert main(["run", "mnist", "--containers", *where, *image]) == 2
    assert "--containers is for this machine" in capsys.readouterr().err


def test_containers_mount_local_state_and_given_data():
    target = local_target(Path("/state"))
    arguments = argparse.Namespace(data_dir="/data", examples_dir=None)

    mounts = mounts_of(arguments, target)

    assert mounts == [Path("/state"), Path("/data")]
    containers = ["--containers", "--mount=/state", "--mount=/data"]
    assert LocalService(Path("/state/vertex"), mounts=mounts).options == containers
