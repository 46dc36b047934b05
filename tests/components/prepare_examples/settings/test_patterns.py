"""Dates in the names of files."""

import datetime

import pytest

from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.settings.patterns import check_pattern, expand, fill
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast
HOURS = [*range(4, 24), *range(4)]
NIGHT = datetime.datetime(2026, 3, 1, 3, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/d/{run_date:%Y-%m}.csv", "/d/2026-03.csv"),
        ("/d/{run_date-1d:%Y/%m}/*.csv", "/d/2026/02/*.csv"),
        ("/d/{run_date:%Y}/{run_date-3h:%H}.csv", "/d/2026/00.csv"),
        ("/d/{run_date+1w:%Y%m%d}.csv", "/d/20260308.csv"),
        ("/d/{id}.csv", "/d/{id}.csv"),
    ],
)
def test_a_date_in_a_name_is_that_of_the_run(pattern, expected):
    check_pattern(pattern)
    assert fill(pattern, NIGHT) == expected


@pytest.mark.parametrize(
    ("pattern", "window", "expected"),
    [
        ("{run_date-1d:%m-%d}", 3, ["02-26", "02-27", "02-28"]),
        ("{run_date:%Y-%m}", 30, ["2026-01", "2026-02", "2026-03"]),
        ("{run_date:%dT%H}", 1, [f"{28 if hour > 3 else 1:02}T{hour:02}" for hour in HOURS]),
        ("{run_date:%d}", None, ["01"]),
        ("all.csv", 30, ["all.csv"]),
    ],
)
def test_a_window_has_the_files_of_as_many_days_the_last_one_the_run_s(pattern, window, expected):
    days = datetime.timedelta(days=window) if window else None
    assert list(expand(pattern, NIGHT, days)) == expected


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"files": ("/d/{rundate:%Y}",)}, r"\{rundate:%Y\} is not a date; write \{run_date:"),
        ({"files": ("/d/{run_date-1y:%Y}",)}, "is not a date"),
        ({"files": ("/d/{run_date:%Q}",)}, "has %Q; allowed are %Y"),
        ({"files": ("/d/{run_date:day}",)}, "has no date"),
        ({"window": "30"}, "window is '30'; it must be a number of days or weeks"),
        ({"files": ("/d/{run_date+99999d:%Y}",)}, "is not a date"),
        ({"run_date": "1.11.2026"}, "run_date is '1.11.2026'; it must be a date such as"),
        ({"run_date": "0001-01-01T00:00:00+05:00"}, "run_date is .* from 1900 to 2999"),
        ({"run_date": "9999-12-31"}, "run_date is '9999-12-31'; .* from 1900 to 2999"),
        ({"run_time_zone": "Mars"}, "run_time_zone is 'Mars'"),
        ({"window": "7d", "dates": ("2026-01-01", "2026-01-02")}, "dates are given too; drop one"),
        ({"dates": ("2026-01-02", "2026-01-01")}, "it must be the first and last day"),
        ({"dates": ("2026-01-02", "9999-12-31")}, "first and last day, .* at most 9999-12-30"),
    ],
)
def test_a_wrong_date_is_refused_with_its_field_and_value(settings, problem):
    with pytest.raises(ValueError, match=problem):
        PrepareOptions(**settings)


def test_refusals_of_patterns_are_errors_of_the_user():
    with pytest.raises(ConfigError):
        check_pattern("/d/{date}.csv")
