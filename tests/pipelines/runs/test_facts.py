"""Facts of runs that a list lacks."""

import pytest

from pipelines.runs.facts import newest_runs
from tests.support.data.run_records import FAILED, job, promoted

pytestmark = pytest.mark.fast


class ListWithoutDetails:
    """Fake of Vertex AI: lists have no task details, and a listed run may be deleted."""

    def __init__(self, *jobs: dict) -> None:
        self._jobs = {one["name"]: one for one in jobs}
        self.asked: list[str] = []

    def list_resources(self, path: str, *, filter: str = ""):
        self.asked.append(filter)
        keys = ("name", "state", "createTime")
        yield {"name": "gone", "state": "x", "createTime": "2027"}
        yield from ({key: one[key] for key in keys} for one in self._jobs.values())

    def find(self, name: str) -> dict | None:
        self.asked.append(name)
        return self._jobs.get(name)


def test_each_listed_run_is_requested_for_its_tasks():
    older = {**job(FAILED), "createTime": "2026-11-20T10:00:00Z"}
    api = ListWithoutDetails(older, promoted())

    found = newest_runs(api, limit=2, schedule="nightly")

    assert [run.outcome for run in found] == ["promoted"], "one of the two newest is gone"
    assert [run.outcome for run in newest_runs(api, limit=0)] == ["promoted", "gate-failed"]
    assert api.asked[0] == 'labels.trainyard_schedule="nightly"'
    assert len(api.asked) == 3 + 4
