"""The predicted speed of a cluster: computing, messages and bytes."""

import pytest

from components.plan_training.speed import (
    COSTS,
    Costs,
    Job,
    Network,
    added_by_another,
    batches_per_second,
    speed_up,
)

pytestmark = pytest.mark.fast

COST = Costs(message=1e-4, latencies=1.0, wire=1.0, copying=0.0)
GIGABIT = Network(latency=5e-4, bandwidth=1e9)
MILLION = {"weights": 1e6, "computing": 3e-3}


@pytest.mark.parametrize(
    ("workers", "seconds"),
    [
        # Computing, 2 (n - 1) messages and their latencies, and 2 (n - 1) / n vectors of 4 MB.
        (2, 3e-3 + 2 * 1e-4 + 2 * 5e-4 + 32e-3),
        (4, 3e-3 + 6 * 1e-4 + 6 * 5e-4 + 48e-3),
    ],
)
def test_replicas_in_a_ring_take_a_step_together(workers, seconds):
    job = Job(is_asynchronous=False, workers=workers, **MILLION)
    assert batches_per_second(job, GIGABIT, COST) == pytest.approx(workers / seconds)


@pytest.mark.parametrize(
    ("workers", "servers", "batches"),
    [
        (1, 1, 1 / (3e-3 + 2 * 1e-4 + 2 * 5e-4 + 64e-3)),
        (2, 2, 2 / (3e-3 + 2 * 1e-4 + 2 * 5e-4 + 64e-3)),
        (4, 1, 1 / 32e-3),  # they fill the link of the server
        (40, 4, 4 / 32e-3),
    ],
)
def test_asynchronous_workers_share_the_links_of_the_servers(workers, servers, batches):
    job = Job(is_asynchronous=True, workers=workers, servers=servers, **MILLION)
    assert batches_per_second(job, GIGABIT, COST) == pytest.approx(batches)


def test_another_worker_adds_nothing_where_the_link_of_the_server_is_full():
    job = Job(is_asynchronous=True, workers=4, servers=1, **MILLION)
    assert added_by_another(job, GIGABIT, COST) == pytest.approx(0)


@pytest.mark.parametrize("strategy", COSTS)
def test_long_steps_of_small_models_scale_with_the_workers(strategy):
    job = Job(
        is_asynchronous=strategy == "parameter_server",
        workers=8,
        servers=1,
        weights=1000,
        computing=60.0,
    )
    fast = Network(latency=1e-5, bandwidth=100e9)
    assert speed_up(job, fast, COSTS[strategy]) == pytest.approx(8, rel=0.01)
    assert added_by_another(job, fast, COSTS[strategy]) == pytest.approx(1, rel=0.01)
