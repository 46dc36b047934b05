from datetime import UTC, datetime
from itertools import islice

import pytest

from vertex_local.rules.cron import Cron

pytestmark = pytest.mark.fast


def times(text: str, start: str, count: int) -> list[str]:
    def follow():
        moment = datetime.fromisoformat(start).astimezone(UTC)
        while (moment := Cron.parse(text).next_after(moment)) is not None:
            yield moment.strftime("%m-%dT%H:%M")

    return list(islice(follow(), count))


def test_the_default_time_zone_is_utc():
    assert times("30 2 * * MON-FRI", "2026-11-20T12:00:00Z", 2) == ["11-23T02:30", "11-24T02:30"]


@pytest.mark.parametrize("prefix", ["TZ", "CRON_TZ"])
def test_a_time_zone_may_precede_the_fields(prefix):
    line = f"{prefix}=Europe/Berlin 0 3 * * *"
    assert times(line, "2026-07-01T00:00:00Z", 1) == ["07-01T01:00"]
    assert times(line, "2026-12-01T00:00:00Z", 1) == ["12-01T02:00"]


@pytest.mark.parametrize(
    ("line", "start", "expected"),
    [
        pytest.param(
            "30 2 * * *",
            "2026-03-28T12:00:00Z",
            ["03-29T01:00", "03-30T00:30"],
            id="in spring 2:30 is missing: it comes at 3:00",
        ),
        pytest.param(
            "30 2 * * *",
            "2026-10-24T12:00:00Z",
            ["10-25T00:30", "10-26T01:30"],
            id="in autumn 2:30 is twice: it comes once",
        ),
        pytest.param(
            "30 2 * * *",
            "2026-10-25T01:10:00Z",
            ["10-26T01:30"],
            id="in the second of the two hours it never goes back",
        ),
        pytest.param(
            "0 * * * *",
            "2026-10-24T23:30:00Z",
            ["10-25T00:00", "10-25T01:00", "10-25T02:00"],
            id="every hour is every hour",
        ),
        pytest.param(
            "0 3 * * *",
            "2026-03-28T00:00:00Z",
            ["03-28T02:00", "03-29T01:00", "03-30T01:00"],
            id="a daily time keeps its place on the clock",
        ),
    ],
)
def test_runs_when_clocks_change(line, start, expected):
    assert times(f"TZ=Europe/Berlin {line}", start, len(expected)) == expected


def test_a_leap_day_comes_every_four_years():
    assert Cron.parse("0 0 29 2 *").next_after(datetime(2026, 1, 1, tzinfo=UTC)).year == 2028


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 0 3 * * *", "6 fields"),
        ("@daily", "1 fields"),
        ("", "0 fields"),
        ("61 3 * * *", "Bad minute"),
        ("0 3 * * 9", "Bad day-of-week"),
        ("0 0 30 2 *", "Bad day-of-month"),
        ("0 3 L * *", "'L' in "),
        ("0 3 * * 1#2", "'1#2' in "),
        ("0 */24 * * *", "a step above 23"),
        ("TZ=Europe/Berln 0 3 * * *", "Europe/Berln"),
        ("TZ=../../etc/passwd 0 3 * * *", "time zone"),
        ("TZ=Europe 0 3 * * *", "time zone"),
    ],
)
def test_an_invalid_expression_is_refused(line, message):
    with pytest.raises(ValueError, match=message):
        Cron.parse(line)
