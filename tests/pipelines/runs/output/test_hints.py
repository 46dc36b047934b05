"""Commands to try next."""

import sys
from pathlib import Path

import pytest

from components.run_result.summary import summarize
from pipelines.config.built_in import mnist
from pipelines.places.target import local_target, vertex_target
from pipelines.runs.output import hints
from pipelines.runs.output.ending import next_commands
from tests.support.data.run_records import VERSION, job, task

pytestmark = pytest.mark.fast


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Targets with the default state folder, and with another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINYARD_DIR", raising=False)
    monkeypatch.setattr(hints.shutil, "which", lambda name: str(Path(sys.executable).parent / name))
    return local_target(tmp_path / ".trainyard"), local_target(tmp_path / "second state")


def test_hints_after_a_failure_name_task_and_state_folder(places):
    usual, other = places
    found = job(task("evaluate", state="FAILED"), state="FAILED", error="x")

    first = hints.after_failure(summarize(found), usual)[0]
    assert first == "trainyard runs logs m-1 --task evaluate"
    first, _, resume = hints.after_failure(summarize(found), other)
    assert first == "trainyard runs logs m-1 --task evaluate --state-dir 'second state'"
    assert resume == "trainyard runs resume m-1 --wait --state-dir 'second state'"
    assert hints.stop_command(other) == "vertex-local stop --root 'second state/vertex'"
    cloud = vertex_target(usual.state_dir, project="p", location="l", pipeline_root="gs://b/r")
    assert hints.command("trainyard runs show r", cloud).endswith(
        "--on vertex --project p --location l"
    )


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("passed", ["endpoints deploy mnist@3 --endpoint 'the e'", "endpoints predict 'the e' "]),
        ("failed", ["runs show m-1"]),
    ],
)
def test_a_promoted_version_is_served_without_another_run(places, verdict, expected):
    promoted = [task("release-model", Output=VERSION)] if verdict == "passed" else []
    config = mnist().replace(endpoint_name="the e")
    run = summarize(job(task("evaluate", verdict=verdict), *promoted))

    commands = next_commands(run, config=config, target=places[0], logs="/l", instances="/golden")

    assert commands[-1] == "tensorboard --logdir /l"
    for command, start in zip(commands[:-1], expected, strict=True):
        assert command.startswith(f"trainyard {start}")
