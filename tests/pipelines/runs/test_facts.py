"""Facts of runs that a list lacks."""

import pytest

from pipelines.runs.facts import newest_runs
from tests.support.data.run_records import FAILED, NAME, job, promoted

pytestmark = pytest.mark.fast


class ListWithoutDetails:
    """Fake of Vertex AI: lists have no task details, and a listed run may be deleted."""

    def __init__(self, *jobs: dict) -> None:
        self._jobs = {one["name"]: one for one in jobs}
        self.asked: list[str] = []
        self.num_read = 0

    def list_resources(self, path: str, *, filter: str, **query: str):
        self.asked.append(filter)
        self.query = query
        newest = sorted(self._jobs.values(), key=lambda one: one["createTime"], reverse=True)
        yield {"name": "gone"}
        for one in newest:
            self.num_read += 1
            yield {"name": one["name"]}

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


def test_the_newest_runs_are_ordered_and_limited_by_the_service():
    jobs = [
        {**promoted(), "name": f"{NAME}-{at}", "createTime": f"20{at}-01-01T00:00Z"}
        for at in range(10, 60)
    ]
    api = ListWithoutDetails(*jobs)

    assert len(newest_runs(api, limit=20)) == 19, "one of the twenty newest is gone"
    assert api.num_read == 19
    assert api.query == {"orderBy": "create_time desc", "pageSize": "20", "readMask": "name"}
