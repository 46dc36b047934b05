"""Commands to try next."""

import sys
from pathlib import Path

import pytest

from components.shared.run_summary.summary import summarize
from pipelines.places.target import local_target, vertex_target
from pipelines.runs.output import hints
from tests.support.data.run_records import job, task

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
