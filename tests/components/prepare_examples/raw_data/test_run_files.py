"""Files and days of a run, by its time."""

import json

import pytest

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.run_files import resolve, resolved_text, run_moment
from components.prepare_examples.settings.options import PrepareOptions

pytestmark = pytest.mark.fast
SCHEDULED, CREATED = "2026-11-01T08:00:00Z", "2026-11-03T09:10:11.123456Z"
LITERAL = "{{$.pipeline_job_schedule_time_utc}}"


@pytest.fixture
def days(tmp_path):
    """A folder with a file for each of five days, one of which is missing."""
    for day in (27, 28, 30, 31):
        (tmp_path / f"2026-10-{day}.csv").write_text("x\n")
    (tmp_path / "2026-11-01.csv").write_text("x\n")
    return tmp_path


@pytest.mark.parametrize(
    ("options", "times", "expected"),
    [
        ({}, (SCHEDULED, CREATED), "2026-11-01T08:00:00+00:00"),
        ({}, ("", CREATED), "2026-11-03T09:10:11.123456+00:00"),
        ({}, (LITERAL, CREATED), "2026-11-03T09:10:11.123456+00:00"),
        ({"run_date": "2026-10-05"}, (SCHEDULED, CREATED), "2026-10-05T00:00:00+00:00"),
        (
            {"run_time_zone": "Asia/Tokyo"},
            ("2026-11-01T18:00:00Z", ""),
            "2026-11-02T03:00:00+09:00",
        ),
    ],
)
def test_a_run_has_the_date_of_its_schedule_or_else_of_its_creation(options, times, expected):
    scheduled, created = times
    found = run_moment(PrepareOptions(**options), schedule_time=scheduled, create_time=created)
    assert found.isoformat() == expected


def test_a_run_without_any_time_has_the_present():
    assert run_moment(PrepareOptions()).tzinfo is not None


def test_a_window_reads_the_files_that_exist_and_names_the_dates_without(days, caplog):
    pattern = f"{days}/{{run_date:%Y-%m-%d}}.csv"
    options = PrepareOptions(files=(pattern,), window="4d", run_date="2026-11-01")
    found = resolve(options, run_moment(options))
    assert found.files == tuple(f"{days}/2026-1{day}.csv" for day in ("0-30", "0-31", "1-01"))
    assert (found.window, found.run_date, found.dates) == ("", "", ())
    assert "1 of 4 dates have no file" in caplog.text
    assert "2026-10-29.csv" in caplog.text


def test_a_pattern_without_a_match_names_the_dates_and_the_files(days):
    options = PrepareOptions(files=(f"{days}/{{run_date:%Y-%m-%d}}.csv",), window="10d")
    with pytest.raises(DataError, match=r"any of 10 dates, 2026-12-23 to 2027-01-01.*12-23\.csv"):
        resolve(options, run_moment(options, schedule_time="2027-01-01T03:00:00Z"))


def test_a_night_has_one_cache_key_and_another_night_another(days):
    text = json.dumps({"files": [f"{days}/{{run_date:%Y-%m-%d}}.csv"], "window": "2d"})
    options = PrepareOptions.from_json(text)
    first, again, other = (
        resolved_text(text, run_moment(options, schedule_time=time))
        for time in ("2026-10-28T03:00:00Z", "2026-10-28T05:30:00Z", "2026-10-31T03:00:00Z")
    )
    assert first == again != other
    assert json.loads(first)["files"] == [f"{days}/2026-10-27.csv", f"{days}/2026-10-28.csv"]
    assert "window" not in json.loads(first)


def test_without_dates_the_parameter_is_unchanged():
    text = '{"files": ["/d/a.csv"],   "baseline": "/d/b"}'
    assert resolved_text(text, run_moment(PrepareOptions())) == text


def test_the_previous_baseline_is_no_part_of_the_cache_key():
    assert resolved_text('{"baseline": "previous"}', run_moment(PrepareOptions())) == "{}"


@pytest.mark.parametrize(
    "settings",
    [
        {"files": ("/d/all.csv",)},
        {"source": "bigquery", "project": "p", "limit": 10},
        {},
    ],
    ids=["files without dates", "BigQuery", "own source"],
)
def test_a_window_of_rows_has_the_whole_days_before_the_run(settings):
    options = PrepareOptions(**settings, window="30d")
    found = resolve(options, run_moment(options, schedule_time=SCHEDULED))
    assert found.dates == ("2026-10-02", "2026-10-31")
