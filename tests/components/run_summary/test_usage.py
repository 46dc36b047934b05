"""CPU and memory of replicas, in the terminal and in the report of a run."""

import pytest

from components.run_summary.report import REPORT_FILE, render, write_report
from components.run_summary.summary import Summary
from components.run_summary.usage import Usage, shorten, sparkline, usages_of
from components.run_summary.usage_chart import HEIGHT, WIDTH, chart
from components.vertex.job_warnings import replicas_of_jobs
from pipelines.jobs.view import usage_table

pytestmark = pytest.mark.fast

REPLICAS = {
    "usageSeconds": [1.0, 2.0, 3.0],
    "replicas": [
        {"name": "chief/0", "usage": {"cores": [0.0, 1.0, 2.0], "memoryBytes": [0, None, 2**20]}},
        {"name": "worker/0", "container": "it"},
    ],
}
SUMMARY = Summary(
    run="mnist-1",
    state="SUCCEEDED",
    outcome="promoted",
    workload="mnist",
    schedule="",
    reasons=(),
    settings={},
    data_digest="",
    code_digest="",
    created="",
    ended="",
    verdict="passed",
    metrics={"accuracy": 0.99},
    model_version="mnist@1",
    is_new_version=True,
    tasks=[{"name": "<train>", "state": "SUCCEEDED", "seconds": 3.0, "cached": False}],
    seconds=12.5,
)


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


def test_a_chart_fills_its_area_and_has_gaps():
    drawn = chart([0, 1, None, 2], highest=2)
    assert drawn.count("<polyline") == 2
    assert f'<polyline points="0.0,{HEIGHT:.1f} ' in drawn
    assert f"{WIDTH:.1f},0.0" in drawn


def test_the_report_of_a_run_shows_each_replica(tmp_path):
    class Api:
        parent = "projects/p/locations/l"

        def list_resources(self, kind, filter):
            assert (kind, "mnist-1" in filter) == ("customJobs", True)
            return [{"name": "projects/p/locations/l/customJobs/7"}]

        def get(self, path):
            assert path.endswith("/customJobs/7/replicas")
            return REPLICAS

    replicas = replicas_of_jobs(Api(), label='labels.trainyard_run="mnist-1"')
    write_report(SUMMARY, tmp_path, replicas=replicas)
    page = (tmp_path / REPORT_FILE).read_text()
    assert page.count("<svg") == 2
    assert "chief/0" in page
    assert "1.0 cores, at most 2.0" in page
    assert "<train>" not in page
    assert "&lt;train&gt;" in page


def test_a_report_without_samples_has_a_reason_instead():
    assert "No samples" in render(SUMMARY, usages=[])


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
