"""pytest plugin that records the lines of each test (`recorder.py`)."""

from collections.abc import Generator, Iterator

import pytest

from tools.mutants import recorder

OUTCOMES = ["passed", "skipped", "failed"]
REPORTS = pytest.StashKey[list[pytest.TestReport]]()


def pytest_configure() -> None:
    """Record this process test by test."""
    recorder.start()
    recorder.RECORDERS[0].lead()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Write a record when a test has ended."""
    reports: list[pytest.TestReport] = []
    item.stash[REPORTS] = reports
    yield
    recorder.RECORDERS[0].write(
        item.nodeid,
        seconds=round(sum(report.duration for report in reports), 3),
        outcome=max((report.outcome for report in reports), key=OUTCOMES.index, default="skipped"),
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the reports of the phases of a test."""
    report = yield
    item.stash[REPORTS].append(report)
    return report
