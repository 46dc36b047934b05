"""Calls in flight whose worker is lost."""

import threading
from types import SimpleNamespace

import pytest
import tensorflow as tf

from trainer.errors import ReplicaLostError
from trainer.examples.batches import Batches
from trainer.strategies import asynchronous


class Coordinator:
    """A coordinator whose first call is lost with its results."""

    def __init__(self, strategy):
        self.scheduled = strategy

    def schedule(self, function, args):
        self.scheduled.append([int(number) for number in args[1:4]])
        is_lost = len(self.scheduled) == 1

        def fetch():
            if is_lost:
                raise tf.errors.UnavailableError(None, None, "Socket closed")
            return [4.0, 10.0, 10.0]  # the loss, and the steps that were good and done

        return SimpleNamespace(fetch=fetch)


@pytest.mark.parametrize("is_server_lost", [False, True])
def test_a_call_whose_results_are_lost_with_its_worker_is_repeated(is_server_lost):
    scheduled, nothing = [], lambda *_: None
    batches = Batches(size=2, num_examples=20)
    rules = SimpleNamespace(schedule=SimpleNamespace(variable=None))
    finish, boundary = threading.Event(), lambda _: 40
    driver = asynchronous.AsyncDriver(
        SimpleNamespace(steps_per_call=10, boundary_after=boundary, finish=finish, batches=batches),
        SimpleNamespace(parameters=SimpleNamespace(rules=rules, reset_counter=nothing)),
        SimpleNamespace(locate=nothing),
        coordinator=Coordinator(scheduled),
        servers=SimpleNamespace(
            raise_if_lost=nothing,
            explain=lambda error: ReplicaLostError("ps/0") if is_server_lost else error,
        ),
        workers=SimpleNamespace(raise_if_lost=nothing, num_workers=1),
    )
    if is_server_lost:
        with pytest.raises(tf.errors.UnavailableError):
            list(driver.run(30, 40, {}))
        assert len(scheduled) == 1
    else:
        [totals] = driver.run(30, 40, {})
        assert (totals.steps, totals.examples) == (10, 20)
        # The counter on the servers knows which steps are done.
        assert scheduled == [[30, 10, 2]] * 2
