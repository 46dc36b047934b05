"""Counts of tools/soak, in small: promotions under load, failing calls and kills."""

import time

import pytest

from components.shared.vertex.api import connect
from tests.conftest import write_mnist
from tests.support.processes.whole_runs import Home
from tools.soak import bad_day, promotions, service_kills


@pytest.mark.timeout(120)
def test_no_request_fails_while_versions_are_promoted_and_rolled_back(tmp_path):
    found = promotions.run(tmp_path, count=10, clients=8, pause_seconds=0.02, keep_previous=True)

    assert (found["failed"], found["failures"]) == (0, {})
    assert (found["promotions"], found["rollbacks"]) == (5, 5)
    assert found["versions_that_answered"] >= 3
    assert found["requests"] > 50


def test_a_run_succeeds_though_a_tenth_of_all_calls_fails(tmp_path, monkeypatch):
    home = Home(tmp_path / "home", write_mnist(tmp_path / "mnist", num_train=64))
    with bad_day.faulty_service(home, f"{bad_day.FAULTS};seed=1") as url:
        monkeypatch.setenv("VERTEX_EMULATOR_HOST", url.removeprefix("http://"))

        assert bad_day.run_once(home, connect("local", "us-central1")) == []

        assert sum(bad_day.num_faults(home).values()) > 5


@pytest.mark.parametrize(
    ("rounds", "is_refused"),
    [(4, False), pytest.param(2, True, marks=pytest.mark.linux("PID namespaces"))],
)
@pytest.mark.timeout(240)
def test_random_kills_leave_no_leftovers(tmp_path, rounds, is_refused):
    left = service_kills.run(tmp_path, rounds, time.time_ns(), is_refused=is_refused)

    assert left == [[]] * (rounds + 1)
