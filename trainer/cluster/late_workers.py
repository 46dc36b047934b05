"""Training without some of a cluster's workers, which join when they become reachable.

TensorFlow's ParameterServerStrategy waits for every worker before the first step. Here it connects
to the reachable workers only, and in a call that releases Python's lock, so that a thread can end
the process if one of them is lost meanwhile. The thread that its coordinator runs for each other
worker waits for the worker, then adds it to the cluster as TensorFlow itself does with a restarted
worker. That needs private names of TensorFlow 2.21; tests/trainer/cluster/test_late_workers.py
fails without them.
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
_NO_TIMEOUT = _NO_RETRIES = 0


@contextlib.contextmanager
def connect_without(missing: Collection[int]) -> Iterator[None]:
    """Let a strategy created in the block connect to all workers but those, given by index.

    The strategy's ClusterCoordinator lets them join later.
    """
    native, connect_to_all = context.pywrap_tfe, context.set_server_def
    connect_natively = native.TFE_ContextSetServerDef

    def connect_unlocked(*arguments: Any) -> None:
        native.TFE_ContextSetServerDefWithTimeoutAndRetries(*arguments, _NO_TIMEOUT, _NO_RETRIES)

    def connect(server_def: Any) -> None:
        absent = {index: _workers(server_def).tasks.pop(index) for index in missing}
        cluster_coordinator.Worker._maybe_delay = lambda worker: _join(worker, absent)
        connect_to_all(server_def)

    context.set_server_def = connect
    native.TFE_ContextSetServerDef = connect_unlocked
    try:
        yield
    finally:
        context.set_server_def = connect_to_all
        native.TFE_ContextSetServerDef = connect_natively


def _join(worker: Any, absent: dict[int, str]) -> None:
    """Wait for an absent worker and add it to the cluster; run first by each worker's thread."""
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
    logger.info("worker/%d has joined", worker.worker_index)


def _workers(server_def: Any) -> Any:
    return next(job for job in server_def.cluster.job if job.name == "worker")
