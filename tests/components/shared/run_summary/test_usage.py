"""CPU and memory of replicas, in the terminal."""

import pytest

from components.shared.run_summary.usage import Usage, shorten, sparkline, usages_of
from pipelines.jobs.view import usage_table

pytestmark = pytest.mark.fast

REPLICAS = {
    "usageSeconds": [1.0, 2.0, 3.0],
    "replicas": [
        {"name": "chief/0", "usage": {"cores": [0.0, 1.0, 2.0], "memoryBytes": [0, None, 2**20]}},
        {"name": "worker/0", "container": "it"},
    ],
}


def test_samples_are_read_from_the_response():
    [usage] = usages_of(REPLICAS)
    assert usage == Usage(
        name="chief/0",
        seconds=[1.0, 2.0, 3.0],
        cores=[0.0, 1.0, 2.0],
        memory_bytes=[0, None, 2**20],
    )


@pytest.mark.parametrize("replicas", [None, {}, {"replicas": [{"name": "chief/0"}]}])
def test_without_samples_there_are_no_charts(replicas):
    assert usages_of(replicas) == []


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([0, 1, 2], "▁▅█"),
        ([2, None, 0], "█ ▁"),
        ([], ""),
        ([0, 0], "▁▁"),
        ([0] * 50 + [2] + [0] * 49, "▁" * 12 + "█" + "▁" * 12),
    ],
)
def test_a_line_of_bars_keeps_peaks_and_gaps(values, line):
    highest = max((value for value in values if value), default=0)
    assert sparkline(values, highest=highest, width=25) == line


@pytest.mark.parametrize("count", [1, 31, 32, 33, 600])
def test_a_line_is_never_wider_than_its_limit(count):
    assert len(shorten(list(range(count)), 32)) <= 32
    assert max(shorten(list(range(count)), 32)) == count - 1


def test_jobs_show_draws_a_line_for_each_replica_that_is_seen():
    class Api:
        parent = "projects/p/locations/l"
        replicas: dict = REPLICAS

        def get(self, path):
            return self.replicas

    job = {"name": "projects/p/locations/l/customJobs/7"}
    table = usage_table(Api(), job)
    assert table.headings == ("REPLICA", "CPU OVER 3 s", "CORES", "MEMORY", "AT MOST")
    assert table.rows == [("chief/0", "▁▅█", "1.0, at most 2.0", "▁ █", "1 MB")]
    Api.replicas = {}
    assert usage_table(Api(), job) is None
