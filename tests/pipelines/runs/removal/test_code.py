"""Snapshots of code: removed once nothing names them."""

import os
import time
from pathlib import Path

import pytest

from pipelines.runs.removal.code import remove_snapshots, unused_snapshots

pytestmark = pytest.mark.fast

NAMES = ["churn-00000000000" + digit for digit in "12345"]


class FakeApi:
    """A service whose run, job, schedule name a snapshot each."""

    resources = {  # noqa: RUF012
        "pipelineJobs": [
            {
                "name": "projects/p/locations/l/pipelineJobs/r",
                "runtimeConfig": {"parameterValues": {"workload": f"/state/code/{NAMES[0]}"}},
            }
        ],
        "customJobs": [{"args": [f"--workload=/state/code/{NAMES[1]}"]}],
        "schedules": [{"createPipelineJobRequest": {"workload": NAMES[2]}}],
    }

    def list_resources(self, collection: str, **_: str) -> list[dict]:
        return self.resources[collection]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    for name in (*NAMES, ".new-abc", "notes"):
        (tmp_path / "code" / name).mkdir(parents=True)
        os.utime(tmp_path / "code" / name, (1, 1))
    model = tmp_path / "vertex/models/1/1"
    model.mkdir(parents=True)
    (model / "workload.json").write_text(f'{{"workload": "/state/code/{NAMES[3]}"}}')
    return tmp_path


def test_only_what_nothing_names_is_removed(state):
    unused = unused_snapshots(FakeApi(), state)
    assert [path.name for path in unused] == [NAMES[4]]
    remove_snapshots(state, unused)
    assert sorted(path.name for path in (state / "code").iterdir()) == [*NAMES[:4], "notes"]


def test_runs_that_are_removed_use_nothing(state):
    unused = unused_snapshots(FakeApi(), state, without=frozenset({"r"}))
    assert [path.name for path in unused] == [NAMES[0], NAMES[4]]


def test_a_copy_that_was_just_taken_is_kept(state):
    os.utime(state / "code" / NAMES[4], (time.time(), time.time()))
    assert unused_snapshots(FakeApi(), state) == []


def test_without_copies_the_service_is_not_asked(tmp_path):
    assert unused_snapshots(None, tmp_path) == []
