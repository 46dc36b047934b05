"""The replicas of a parameter-server cluster: servers, the chief's connection, the common end."""

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Set
from typing import Any

import tensorflow as tf

from trainer.cluster.late_workers import expecting
from trainer.cluster.liveness import Watch, end_process, is_reachable, wait_until_reachable
from trainer.cluster.tf_config import Cluster
from trainer.cluster.watchdog import dump_stacks
from trainer.errors import EXIT_RESTART, ClusterError, Preempted, ReplicaLostError, first_line
from trainer.runtime.tensorflow_logs import quiet_native_logs

logger = logging.getLogger(__name__)

_END_FILE = "job-ended.json"
_POLL_SECONDS = 0.5


def serve_replica(
    cluster: Cluster, checkpoint_dir: str, *, start_timeout_seconds: float, stop: threading.Event
) -> int:
    """Serves as worker or ps until the chief says how the job ended, or is gone.

    Returns the process's exit code.
    """
    with quiet_native_logs(), naming_the_port(cluster):
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
        wait_until_reachable(
            chief, timeout_seconds=start_timeout_seconds, check=lambda: _raise_if_set(stop)
        )
        return _wait_for_end(Watch(chief), checkpoint_dir, stop=stop)
    except ReplicaLostError as error:
        if end := read_end(checkpoint_dir):  # before this replica was there
            return _tell_end(end)
        logger.error("%s", error)
        return EXIT_RESTART


def connect(
    cluster: Cluster, *, check: Callable[[], None], timeout_seconds: float, late_seconds: float
) -> tuple[tf.distribute.ParameterServerStrategy, list[str]]:
    """Returns the chief's strategy, and the names of workers that are not there yet.

    All servers and one worker must be there; then the others have `late_seconds` to come.
    """
    others = cluster.replicas("worker", "ps")
    if not all(is_reachable(address) for address in others.values()):
        logger.info("waiting for %s", ", ".join(others))
    missing = wait_until_reachable(
        others,
        timeout_seconds=timeout_seconds,
        check=check,
        can_do_without=lambda missing: _is_enough(cluster, missing.keys()),
        late_seconds=late_seconds,
    )
    for name, address in missing.items():
        logger.warning("training begins without %s (%s): it joins when it comes", name, address)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({name: list(at) for name, at in cluster.addresses.items()}),
        task_type="chief",
        task_id=cluster.task_index,
        rpc_layer="grpc",
    )
    indices = [int(name.removeprefix("worker/")) for name in missing]
    with quiet_native_logs(), naming_the_port(cluster), expecting(indices):
        return tf.distribute.ParameterServerStrategy(resolver), list(missing)


def _is_enough(cluster: Cluster, missing: Set[str]) -> bool:
    """Returns whether a cluster can train without those: all servers and a worker are there."""
    return missing < cluster.replicas("worker").keys()


def clear_end(checkpoint_dir: str) -> None:
    """Removes an earlier job's end, before this chief can be seen by the others."""
    path = f"{checkpoint_dir}/{_END_FILE}"
    if tf.io.gfile.exists(path):
        tf.io.gfile.remove(path)


def announce_end(
    checkpoint_dir: str, *, code: int, message: str, must_dump_stacks: bool = False
) -> None:
    """Tells workers and servers that the job is over, and how they are to exit."""
    tf.io.gfile.makedirs(checkpoint_dir)
    path = f"{checkpoint_dir}/{_END_FILE}"
    with tf.io.gfile.GFile(f"{path}.new", "w") as file:
        end = {"exit_code": code, "message": message, "must_dump_stacks": must_dump_stacks}
        file.write(json.dumps({**end, "time": time.time()}))
    tf.io.gfile.rename(f"{path}.new", path, overwrite=True)


def read_end(checkpoint_dir: str) -> dict[str, Any] | None:
    """Returns how the chief said that the job has ended, or None while it has not."""
    try:
        with tf.io.gfile.GFile(f"{checkpoint_dir}/{_END_FILE}", "r") as file:
            return json.loads(file.read())
    except tf.errors.NotFoundError:
        return None


def abandon(loss: str) -> None:
    """Ends this process when TensorFlow keeps it waiting for a replica that is gone."""
    logger.error("%s, and TensorFlow keeps waiting for it; start the job again to resume", loss)
    end_process(EXIT_RESTART)


@contextlib.contextmanager
def naming_the_port(cluster: Cluster) -> Iterator[None]:
    """Turns TensorFlow's error about a port that is taken into one that names the address."""
    try:
        yield
    except tf.errors.UnknownError as error:
        address = cluster.addresses[cluster.task_type][cluster.task_index]
        raise ClusterError(
            f"cannot serve at {address} ({first_line(error)}): is the port taken?"
        ) from error


def _server_config(cluster: Cluster) -> tf.compat.v1.ConfigProto:
    # With one inter-op thread a server deadlocks: a step waits for a transfer that needs a thread.
    # One intra-op thread: workers of one machine must not fight for its cores.
    return tf.compat.v1.ConfigProto(
        inter_op_parallelism_threads=max(2, cluster.count("worker") + 1),
        intra_op_parallelism_threads=1,
        device_count={"GPU": 0} if cluster.task_type == "ps" else {},
    )


def _wait_for_end(watch: Watch, checkpoint_dir: str, *, stop: threading.Event) -> int:
    while True:
        loss = watch.lost()
        if end := read_end(checkpoint_dir):
            return _tell_end(end)
        if loss:
            raise ReplicaLostError(f"{loss}, and has not said that the job is over")
        stop.wait(_POLL_SECONDS)
        _raise_if_set(stop)


def _tell_end(end: dict[str, Any]) -> int:
    if end.get("must_dump_stacks"):
        dump_stacks(f"the chief says: {end['message']}")
    logger.info("the job has ended: %s", end["message"])
    return int(end["exit_code"])


def _raise_if_set(stop: threading.Event) -> None:
    if stop.is_set():
        raise Preempted("stopped by SIGTERM")
