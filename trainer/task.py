"""The entry of every replica: `python -m trainer.task`."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainer.cluster.liveness import end_process
from trainer.cluster.ports import check_port
from trainer.cluster.tf_config import Cluster, choose_strategy, parse_tf_config
from trainer.config.settings import ConfigError
from trainer.config.train_config import (
    Folders,
    TrainConfig,
    parse_flags,
    resolve_folders,
)
from trainer.errors import (
    EXIT_RESTART,
    ClusterError,
    Preempted,
    ReplicaLostError,
    TrainerError,
    first_line,
)
from trainer.runtime.console import TerminalHandler
from trainer.runtime.tensorflow_logs import import_tensorflow, say_nothing_of_lost_servers

if TYPE_CHECKING:
    from trainer.strategies.collective import Ring

logger = logging.getLogger(__name__)

# Saving a checkpoint takes less; a storage or server that does not answer must not hold us.
_STOP_WITHIN_SECONDS = 30.0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs this replica to its end and returns the exit code."""
    config = parse_flags(argv)
    try:
        cluster = parse_tf_config(os.environ.get("TF_CONFIG"))
        strategy = choose_strategy(config.strategy, cluster)
        folders = resolve_folders(config.output_dir, os.environ)
    except (ClusterError, ConfigError) as error:
        sys.stderr.write(f"python -m trainer.task: error: {error}\n")
        return 2
    _configure_logging(cluster)
    stop = _stop_on_sigterm()
    try:
        return _run(config, cluster, folders, strategy=strategy, stop=stop)
    except Preempted as preempted:
        logger.warning("%s", preempted)
        return EXIT_RESTART
    except ReplicaLostError as error:
        logger.error("%s", error)
        return EXIT_RESTART
    except ConfigError as error:
        logger.error("%s", error)
        return 2
    except TrainerError as error:
        logger.error("%s", error)
    except OSError as error:
        logger.error("%s: %s", error.filename or "files", error.strerror or error)
    except Exception:
        logger.exception("training has failed unexpectedly")
    return 1


def _run(
    config: TrainConfig,
    cluster: Cluster,
    folders: Folders,
    *,
    strategy: str,
    stop: threading.Event,
) -> int:
    check_port(cluster, strategy=strategy)
    import_tensorflow()
    say_nothing_of_lost_servers()
    import tensorflow as tf

    try:
        return _run_replica(config, cluster, folders, strategy=strategy, stop=stop)
    except (
        tf.errors.FailedPreconditionError,
        tf.errors.NotFoundError,
        tf.errors.PermissionDeniedError,
        tf.errors.ResourceExhaustedError,
    ) as error:
        raise TrainerError(
            f"{first_line(error)}; check the output folder, its space and permissions"
        ) from error


def _run_replica(
    config: TrainConfig,
    cluster: Cluster,
    folders: Folders,
    *,
    strategy: str,
    stop: threading.Event,
) -> int:
    if strategy == "parameter_server" and cluster.task_type in ("worker", "ps"):
        from trainer.cluster.servers import serve_replica

        return serve_replica(
            cluster,
            folders.checkpoints,
            start_timeout_seconds=config.start_timeout_seconds,
            stop=stop,
        )
    from trainer.training.devices import open_devices, resolve_strategy
    from trainer.training.job import check_batch_size, make_job

    strategy = resolve_strategy(strategy, requested=config.strategy, cpu_devices=config.cpu_devices)
    devices = open_devices(strategy, cpu_devices=config.cpu_devices)
    if cluster.is_evaluator:
        from trainer.cluster.servers import read_end
        from trainer.training.evaluator import evaluate_checkpoints

        old_end = read_end(folders.checkpoints)
        return evaluate_checkpoints(make_job(config, cluster, folders, stop), old_end)
    from trainer import loop

    num_trainers = len(cluster.trainers()) if strategy == "multi_worker_mirrored" else 1
    check_batch_size(config, num_devices=len(devices) * num_trainers)
    # Connected before anything else, for TensorFlow can only become one of many when it is new.
    ring = _connect(config, cluster, stop) if strategy == "multi_worker_mirrored" else None
    job = make_job(config, cluster, folders, stop)
    if strategy == "parameter_server":
        loop.train_on_cluster(job)
    else:
        loop.train_in_step(job, devices, ring)
    return 0


def _connect(config: TrainConfig, cluster: Cluster, stop: threading.Event) -> "Ring":
    from trainer.strategies.collective import Ring

    return Ring(cluster, start_timeout_seconds=config.start_timeout_seconds, stop=stop)


def _configure_logging(cluster: Cluster) -> None:
    # Of our own: what native code writes to the usual one is held back at times.
    stream = os.fdopen(os.dup(2), "w", buffering=1)
    handler = TerminalHandler(stream) if stream.isatty() else logging.StreamHandler(stream)
    logging.basicConfig(
        level=logging.INFO, format=f"{cluster.name} %(message)s", handlers=[handler], force=True
    )
    # Their errors come as exceptions as well, and pages of them when a replica is lost.
    for chatty in ("absl", "tensorflow"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)


def _stop_on_sigterm() -> threading.Event:
    stop = threading.Event()

    def handle(signum: int, frame: object) -> None:
        del signum, frame
        stop.set()
        late = threading.Timer(_STOP_WITHIN_SECONDS, end_process, [EXIT_RESTART])
        late.daemon = True
        late.start()

    signal.signal(signal.SIGTERM, handle)
    return stop


if __name__ == "__main__":
    end_process(main())
