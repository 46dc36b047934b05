"""Lets training begin without some of a cluster's workers, and takes them in when they come.

TensorFlow's ParameterServerStrategy waits for every worker before the first step. Here it is told
of those that are there; the thread that it has for each of the others waits for its worker, then
adds it to the cluster as TensorFlow itself does for a worker that was restarted. That needs a few
of its private names (TensorFlow 2.21); tests/trainer/cluster/test_late_workers.py fails without
them.
"""

import contextlib
import copy
import logging
import time
from collections.abc import Collection, Iterator
from typing import Any

from tensorflow.python.distribute.coordinator import cluster_coordinator
from tensorflow.python.eager import context

from trainer.cluster.liveness import is_reachable

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.2


@contextlib.contextmanager
def expecting(missing: Collection[int]) -> Iterator[None]:
    """Makes the strategy that is created inside connect to all workers but those, by index.

    The ClusterCoordinator of that strategy has them join when they come.
    """
    connect_to_all = context.set_server_def

    def connect(server_def: Any) -> None:
        absent = {index: _workers(server_def).tasks.pop(index) for index in missing}
        cluster_coordinator.Worker._maybe_delay = lambda worker: _join(worker, absent)
        connect_to_all(server_def)

    context.set_server_def = connect
    try:
        yield
    finally:
        context.set_server_def = connect_to_all


def _join(worker: Any, absent: dict[int, str]) -> None:
    """Is what the thread of each worker does first."""
    address = absent.get(worker.worker_index)
    if address is None:
        return
    while not is_reachable(address):
        time.sleep(_POLL_SECONDS)
    handler = worker.failure_handler
    with handler._cluster_update_lock:
        server_def = copy.deepcopy(context.get_server_def())
        _workers(server_def).tasks[worker.worker_index] = address
        context.update_server_def(server_def)
        handler._server_def = server_def
    logger.info("worker/%d takes part now", worker.worker_index)


def _workers(server_def: Any) -> Any:
    return next(job for job in server_def.cluster.job if job.name == "worker")
