"""Parameter-server clusters: the servers, the chief's connection, and the end of the job."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from trainer import Json
from trainer.cluster.liveness import (
    LivenessWatch,
    Monitor,
    wait_until_reachable,
)
from trainer.cluster.tf_config import Cluster
from trainer.cluster.watchdog import dump_stacks
from trainer.errors import EXIT_RESTART, Preempted, ReplicaLostError, TrainerError, first_line
from trainer.runtime.cores import num_cores
from trainer.runtime.files import read_json, write_json
from trainer.runtime.tensorflow_logs import quiet_native_logs

logger = logging.getLogger(__name__)

_END_FILE = "job-ended.json"
_POLL_SECONDS = 0.5
# Time for TensorFlow itself to notice a closed connection.
REACTION_SECONDS = 5.0


def serve_replica(
    cluster: Cluster, checkpoint_dir: str, *, start_timeout_seconds: float, stop: threading.Event
) -> int:
    """Serve as worker or ps until the chief announces the end of the job, or is lost.

    Returns the exit code of the process.
    """
    old_end = read_end(checkpoint_dir)

    def check() -> None:
        stop.wait(_POLL_SECONDS)  # the file may be in a bucket
        _raise_if_set(stop)
        # The end of an earlier job remains until the chief of this one starts.
        if read_end(checkpoint_dir) not in (None, old_end):
            raise ReplicaLostError("the chief ended before it could connect")

    with quiet_native_logs(), explain_port_errors(cluster):
        server = tf.distribute.Server(
            {name: list(addresses) for name, addresses in cluster.addresses.items()},
            job_name=cluster.task_type,
            task_index=cluster.task_index,
            protocol="grpc",
            config=_server_config(cluster),
        )
    logger.info("serving at %s", server.target.removeprefix("grpc://"))
    chief = cluster.replicas("chief")
    try:
        wait_until_reachable(chief, timeout_seconds=start_timeout_seconds, check=check)
        return wait_for_end(LivenessWatch(chief), checkpoint_dir, stop=stop)
    except ReplicaLostError as error:
        if end := read_end(checkpoint_dir):  # announced while this replica waited, or before
            return _log_end(end)
        logger.error("%s", error)
        return EXIT_RESTART


def connect(
    cluster: Cluster, *, check: Callable[[], None], timeout_seconds: float
) -> tf.distribute.ParameterServerStrategy:
    """Return the chief's strategy, once all workers and parameter servers are reachable."""
    addresses = cluster.replicas("worker", "ps")
    wait_until_reachable(addresses, timeout_seconds=timeout_seconds, check=check)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({name: list(at) for name, at in cluster.addresses.items()}),
        task_type="chief",
        task_id=cluster.task_index,
        rpc_layer="grpc",
    )
    # TensorFlow would wait for ever for a replica that is lost meanwhile.
    monitor = Monitor(addresses, reaction_seconds=REACTION_SECONDS)
    try:
        with quiet_native_logs(), explain_port_errors(cluster), _unlocked_connection():
            return tf.distribute.ParameterServerStrategy(resolver)
    finally:
        monitor.close()


@contextlib.contextmanager
def _unlocked_connection() -> Iterator[None]:
    """Let TensorFlow connect in a call that releases Python's lock.

    With the lock, no thread could end the process if a replica is lost meanwhile. These are private
    names of TensorFlow 2.21; tests/trainer/cluster/test_connecting.py fails without them.
    """
    native = context.pywrap_tfe
    connect_locked = native.TFE_ContextSetServerDef

    def connect_unlocked(*arguments: Any) -> None:
        no_timeout = no_retries = 0
        native.TFE_ContextSetServerDefWithTimeoutAndRetries(*arguments, no_timeout, no_retries)

    native.TFE_ContextSetServerDef = connect_unlocked
    try:
        yield
    finally:
        native.TFE_ContextSetServerDef = connect_locked


def clear_end(checkpoint_dir: str) -> None:
    """Delete the end of an earlier job, before other replicas can reach this chief."""
    path = f"{checkpoint_dir}/{_END_FILE}"
    if tf.io.gfile.exists(path):
        tf.io.gfile.remove(path)


def announce_end(
    checkpoint_dir: str, *, code: int, message: str, must_dump_stacks: bool = False
) -> None:
    """Announce the end of the job, and the exit code for the other replicas, in a file."""
    tf.io.gfile.makedirs(checkpoint_dir)
    end = {
        "exit_code": code,
        "message": message,
        "must_dump_stacks": must_dump_stacks,
        "time": time.time(),
    }
    write_json(f"{checkpoint_dir}/{_END_FILE}", end)


def read_end(checkpoint_dir: str) -> Json | None:
    """Return the end of the job as the chief announced it, or None while the job runs."""
    try:
        end: Json = read_json(f"{checkpoint_dir}/{_END_FILE}")
    except tf.errors.NotFoundError:
        return None
    return end


@contextlib.contextmanager
def explain_port_errors(cluster: Cluster) -> Iterator[None]:
    """Raise TensorFlow's error about a taken port as a TrainerError that names the address."""
    try:
        yield
    except tf.errors.UnknownError as error:
        address = cluster.addresses[cluster.task_type][cluster.task_index]
        raise TrainerError(
            f"cannot serve at {address} ({first_line(error)}): is the port taken?"
        ) from error


def _server_config(cluster: Cluster) -> tf.compat.v1.ConfigProto:
    # With one inter-op thread a server deadlocks: a step waits for a transfer that needs a thread.
    # Workers on one machine must not compete for its cores.
    cores = num_cores(num_sharing=cluster.num_computing_here())
    return tf.compat.v1.ConfigProto(
        inter_op_parallelism_threads=max(2, cluster.count("worker") + 1),
        intra_op_parallelism_threads=cores if cluster.task_type == "worker" else 1,
        device_count={"GPU": 0} if cluster.task_type == "ps" else {},
    )


def wait_for_end(watch: LivenessWatch, checkpoint_dir: str, *, stop: threading.Event) -> int:
    """Return the announced exit code of the job once it has ended."""
    while True:
        lost = watch.find_lost()
        if end := read_end(checkpoint_dir):
            return _log_end(end)
        _raise_if_set(stop)  # after the end is read: a service stops the replicas of an ended job
        if lost:
            raise ReplicaLostError(f"{lost}, without announcing the end of the job")
        stop.wait(_POLL_SECONDS)


def _log_end(end: Json) -> int:
    if end.get("must_dump_stacks"):
        dump_stacks(f"the chief reports: {end['message']}")
    logger.info("the job has ended: %s", end["message"])
    return int(end["exit_code"])


def _raise_if_set(stop: threading.Event) -> None:
    if stop.is_set():
        raise Preempted("stopped by SIGTERM")
