from datetime import UTC, datetime, timedelta, timezone

import pytest

from vertex_local.machine.clock import moment_of, now, timestamp

pytestmark = pytest.mark.fast

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
CASES = [
    pytest.param(NOON, "auto", "2026-01-31T12:00:00Z", id="whole-second"),
    pytest.param(
        NOON.replace(microsecond=500), "auto", "2026-01-31T12:00:00.000500Z", id="fraction"
    ),
    pytest.param(NOON, "microseconds", "2026-01-31T12:00:00.000000Z", id="microseconds"),
    pytest.param(NOON.timestamp() + 0.1236, "milliseconds", "2026-01-31T12:00:00.123Z", id="file"),
    pytest.param(
        NOON.astimezone(timezone(timedelta(hours=2))), "auto", "2026-01-31T12:00:00Z", id="zone"
    ),
]


@pytest.mark.parametrize(("moment", "timespec", "text"), CASES)
def test_timestamps_are_in_utc_and_end_with_z(moment, timespec, text):
    assert timestamp(moment, timespec=timespec) == text


def test_now_can_be_read_back():
    assert abs(moment_of(now()) - datetime.now(UTC)) < timedelta(minutes=1)
