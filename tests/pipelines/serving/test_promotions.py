"""Promotions and rollbacks under load lose no request (tools/soak/promotions.py, in small)."""

import pytest

from tools.soak.promotions import run


@pytest.mark.timeout(120)
def test_no_request_fails_while_versions_are_promoted_and_rolled_back(tmp_path):
    found = run(tmp_path, count=10, clients=8, pause_seconds=0.02, keep_previous=True)

    assert (found["failed"], found["failures"]) == (0, {})
    assert (found["promotions"], found["rollbacks"]) == (5, 5)
    assert found["versions_that_answered"] >= 3
    assert found["requests"] > 50
