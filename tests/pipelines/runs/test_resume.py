"""`trainyard runs resume` against the real service, with a plan and a training of a few lines."""

import itertools
import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from kfp import compiler, dsl

from components.shared.vertex.api import EMULATOR_VARIABLE, connect
from components.shared.vertex.labels import RUN_LABEL
from pipelines.package.image import default_image
from pipelines.places.target import DEFAULT_LOCATION, LOCAL_PROJECT
from pipelines.runs.resume import await_end
from vertex_local.tests.support.service import PARENT
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)
NUMBERS = itertools.count(1)


@dsl.component(install_kfp_package=False, base_image=default_image())
def plan_training(folder: str, model: dsl.Output[dsl.Model]) -> NamedTuple(
    "Plan", [("base_output_directory", str)]
):
    model.uri = f"{folder}/model"
    return (folder,)


@dsl.component(install_kfp_package=False, base_image=default_image())
def train(folder: str, seconds: float):
    import os
    import time

    time.sleep(seconds)
    if not os.path.exists(f"{folder}/may-end"):
        raise SystemExit("killed at step 1200")
    with open(f"{folder}/model", "w") as file:
        file.write("weights")


@dsl.pipeline(name="training")
def training(folder: str, seconds: float = 0.0):
    plan = plan_training(folder=folder)
    train(folder=plan.outputs["base_output_directory"], seconds=seconds)


@dsl.component(install_kfp_package=False, base_image=default_image())
def leave(folder: str):
    import os
    import time

    while not os.path.exists(f"{folder}/may-leave"):
        time.sleep(0.05)


@dsl.component(install_kfp_package=False, base_image=default_image())
def train_long(folder: str):
    import os
    import time

    while not os.path.exists(f"{folder}/may-end"):
        time.sleep(0.05)


@dsl.pipeline(name="leaving")
def leaving(folder: str):
    with dsl.ExitHandler(leave(folder=folder)):
        train_long(folder=folder)


@pytest.fixture
def service(forking_service):
    return forking_service


@pytest.fixture
def run() -> str:
    """A name that no other run has."""
    return f"training-{next(NUMBERS)}"


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return the output folder of the training."""
    path = tmp_path / "output"
    path.mkdir()
    return path


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "training.yaml"
    compiler.Compiler().compile(training, str(path))
    return path


@pytest.fixture
def failed(trainyard, package, folder, run):
    """Start a run whose training fails."""

    def start(*arguments: str) -> None:
        given = ["--name", run, "--set", f"folder={folder}", "--set", "labels.team=vision"]
        assert trainyard("submit", str(package), "--wait", *given, *arguments)[0] == 1

    return start


def shown(trainyard, run):
    return json.loads(trainyard("runs", "show", run, "--json")[1])


def states(trainyard, run):
    details = shown(trainyard, run)["jobDetail"]["taskDetails"]
    return {detail["taskName"]: detail["state"] for detail in details}


def test_resumed_run_continues_from_the_last_complete_checkpoint(trainyard, failed, folder, run):
    failed()
    for step in (600, 1200, 1800):
        (folder / "checkpoints" / f"step-{step:010d}").mkdir(parents=True)
        if step < 1800:  # the last one is incomplete
            (folder / "checkpoints" / f"step-{step:010d}" / "checkpoint.json").write_text("{}")
    (folder / "may-end").touch()

    code, output, errors = trainyard("runs", "resume", run, "--wait")

    assert (code, errors) == (0, "")
    first, name, *_ = output.splitlines()
    assert re.match(r"training .* step 1200\b", first)
    assert name == f"{run}-r2"
    assert states(trainyard, name) == {"plan-training": "SKIPPED", "train": "SUCCEEDED"}
    labels = shown(trainyard, name)["labels"]
    assert (labels["team"], labels[RUN_LABEL]) == ("vision", name)

    code, _, errors = trainyard("runs", "resume", name)
    assert code == 2
    assert f"run {run}-r2 has succeeded" in errors


def test_resumed_names_count_up_and_a_missing_checkpoint_is_reported(trainyard, failed, run):
    failed()
    output = trainyard("runs", "resume", run, "--wait")[1]
    assert output.startswith("training starts at step 0: there is no checkpoint in ")
    assert trainyard("runs", "resume", run, "--wait")[1].splitlines()[1] == f"{run}-r3"
    assert trainyard("runs", "resume", f"{run}-r2", "--wait")[1].splitlines()[1] == f"{run}-r4"


def test_resuming_a_run_without_cache_restarts_every_step(trainyard, failed, run):
    failed("--no-cache")
    code, output, _ = trainyard("runs", "resume", run, "--wait")
    assert code == 1
    assert output.startswith(f"{run} was started with --no-cache")
    assert states(trainyard, f"{run}-r2")["plan-training"] == "SUCCEEDED"


def test_unfinished_run_is_not_resumed(trainyard, package, folder, run):
    given = ["--name", run, "--set", f"folder={folder}", "--set", "seconds=600"]
    assert trainyard("submit", str(package), *given)[0] == 0
    code, _, errors = trainyard("runs", "resume", run)
    assert code == 2
    assert re.search(rf"run {run} is (PENDING|RUNNING)", errors)
    assert trainyard("runs", "resume", "no-run")[0] == 1


def test_run_of_another_source_is_not_resumed(trainyard, package, folder, tmp_path, run):
    other = tmp_path / "other.yaml"
    other.write_text(package.read_text().replace(default_image(), "trainyard:src-000000000000"))
    given = ["--name", run, "--set", f"folder={folder}"]
    assert trainyard("submit", str(other), "--wait", *given)[0] == 1
    code, _, errors = trainyard("runs", "resume", run)
    assert code == 2
    assert "trainyard:src-000000000000" in errors


def test_two_runs_of_one_plan_do_not_train_into_one_folder(
    service, trainyard, package, folder, run
):
    """Give a second run the output folder that the first one holds."""
    given = ["--set", f"folder={folder}", "--set", "seconds=600"]
    for name in (run, f"{run}-b"):
        trainyard("submit", str(package), "--name", name, *given)
        await_training(trainyard, name)
    assert states(trainyard, f"{run}-b")["plan-training"] == "SUCCEEDED", "not from the cache"
    for name in (run, f"{run}-b"):
        service.do("POST", f"/v1/{PARENT.replace('demo', 'local')}/pipelineJobs/{name}:cancel", {})


def await_training(trainyard, run, *, task="train"):
    def has_started() -> bool:
        return "jobDetail" in shown(trainyard, run) and task in states(trainyard, run)

    wait_until(has_started, task, poll_seconds=0.1)


def test_an_interrupted_run_is_ended_and_then_resumed(service, trainyard, folder, monkeypatch, run):
    path = folder / "leaving.yaml"
    compiler.Compiler().compile(leaving, str(path))
    trainyard("submit", str(path), "--name", run, "--set", f"folder={folder}")
    await_training(trainyard, run, task="train-long")
    service.kill()
    service.start()
    monkeypatch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
    said = []

    def say(text: str) -> None:
        said.append(text)
        (folder / "may-leave").touch()
        (folder / "may-end").touch()

    await_end(connect(LOCAL_PROJECT, DEFAULT_LOCATION), run, say=say)
    assert said == [f"run {run} was interrupted; waiting for its exit task"]
    assert shown(trainyard, run)["state"] == "PIPELINE_STATE_FAILED"
    assert trainyard("runs", "resume", run, "--wait")[:1] == (0,)
    assert states(trainyard, f"{run}-r2")["train-long"] == "SUCCEEDED"
