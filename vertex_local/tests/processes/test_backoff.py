"""The delays before the restarts of a prediction server."""

import pytest

from vertex_local.processes.restarts import Backoff

pytestmark = pytest.mark.fast


def test_delays_double_up_to_half_a_minute_until_the_server_was_healthy_for_long():
    backoff = Backoff()
    delays = [backoff.next_delay(healthy_seconds=5) for _ in range(9)]
    assert delays == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert [backoff.next_delay(healthy_seconds=0) for _ in range(2000)][-1] == 30
    assert backoff.next_delay(healthy_seconds=60) == 0.5
    assert backoff.failures == 1
