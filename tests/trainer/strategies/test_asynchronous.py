"""Calls in flight whose worker is lost."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from trainer.errors import ReplicaLostError
from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import tensorflow as tf  # noqa: E402

from trainer.strategies.asynchronous import AsyncDriver, _Call  # noqa: E402


@pytest.mark.parametrize("is_server_lost", [False, True])
def test_a_call_whose_results_are_lost_with_its_worker_is_repeated(is_server_lost):
    lost, again, scheduled = Future(), Future(), []
    lost.set_exception(tf.errors.UnavailableError(None, None, "Socket closed"))
    again.set_result([0.0, 0.0, 0.0, 0.0])

    def schedule(*call):
        scheduled.append(call)
        return _Call(*call, again)

    driver = object.__new__(AsyncDriver)
    driver._schedule = schedule
    driver._workers = SimpleNamespace(raise_if_lost=lambda: None)
    driver._servers = SimpleNamespace(
        raise_if_lost=lambda: None,
        explain=lambda error: ReplicaLostError("ps/0") if is_server_lost else error,
    )
    if is_server_lost:
        with pytest.raises(tf.errors.UnavailableError):
            driver._fetch(_Call(30, 10, 2, lost))
    else:
        assert driver._fetch(_Call(30, 10, 2, lost)) == [0.0, 0.0, 0.0, 0.0]
        assert scheduled == [(30, 10, 2)], "the counter on the servers knows which steps are done"
