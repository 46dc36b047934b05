"""Entry point of every replica: `python -m trainer.task`."""

import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from trainer import paths
from trainer.cluster.liveness import end_process
from trainer.cluster.tf_config import Cluster, check_port, choose_strategy, parse_tf_config
from trainer.config.train_config import Folders, TrainConfig, parse_flags, resolve_folders
from trainer.errors import EXIT_RESTART, ConfigError, TrainerError, first_line
from trainer.runtime.tensorflow_logs import hide_destructor_errors, import_tensorflow

if TYPE_CHECKING:
    from trainer.strategies.group import ReplicaGroup

logger = logging.getLogger(__name__)

# Enough to save a checkpoint; storage or servers that do not respond must not prevent the exit.
_STOP_TIMEOUT_SECONDS = 30.0
_CLEAR_LINE = "\r\x1b[K"


def main(argv: Sequence[str] | None = None) -> int:
    """Run this replica and return its exit code."""
    config = parse_flags(argv)
    try:
        cluster = parse_tf_config(os.environ.get("TF_CONFIG"))
        strategy = choose_strategy(config.strategy, cluster)
        folders = resolve_folders(config.output_dir, os.environ)
        config = config.replace(examples_dir=paths.opened(config.examples_dir))
    except ConfigError as error:
        sys.stderr.write(f"python -m trainer.task: error: {error}\n")
        return 2
    _configure_logging(cluster)
    stop = _stop_on_sigterm()
    try:
        return _run(config, cluster, folders, strategy=strategy, stop=stop)
    except TrainerError as error:
        logger.error("%s", error)
        return error.exit_code
    except OSError as error:
        logger.error("%s: %s", error.filename or "files", error.strerror or error)
    except Exception:
        logger.exception("training failed unexpectedly")
    return 1


def _run(
    config: TrainConfig, cluster: Cluster, folders: Folders, *, strategy: str, stop: threading.Event
) -> int:
    check_port(cluster, strategy=strategy)
    # The modules imported below import TensorFlow, which must happen in `import_tensorflow`.
    import_tensorflow()
    hide_destructor_errors()
    import tensorflow as tf

    try:
        if strategy == "parameter_server" and cluster.task_type in ("worker", "ps"):
            from trainer.cluster.servers import serve_replica

            timeout_seconds = config.start_timeout_seconds
            return serve_replica(
                cluster, folders.checkpoints, start_timeout_seconds=timeout_seconds, stop=stop
            )
        return _train(config, cluster, folders, strategy=strategy, stop=stop)
    except (
        tf.errors.FailedPreconditionError,
        tf.errors.NotFoundError,
        tf.errors.PermissionDeniedError,
        tf.errors.ResourceExhaustedError,
    ) as error:
        raise TrainerError(
            f"{first_line(error)}; check the output folder, its space and permissions"
        ) from error


def _train(
    config: TrainConfig, cluster: Cluster, folders: Folders, *, strategy: str, stop: threading.Event
) -> int:
    from trainer.training.job import check_batch_size, make_job
    from trainer.training.model.devices import open_devices, resolve_strategy

    strategy = resolve_strategy(strategy, requested=config.strategy, cpu_devices=config.cpu_devices)
    devices = open_devices(strategy, cpu_devices=config.cpu_devices)
    is_connected = strategy == "multi_worker_mirrored" and not cluster.is_evaluator
    group = None
    # First: TensorFlow cannot join other replicas once it is initialised, and the workload's file,
    # which `recipe` loads, may use it.
    if is_connected and not _has_ring(config):
        group = _connect(config, cluster, stop)
    num_trainers = len(cluster.trainers()) if strategy == "multi_worker_mirrored" else 1
    devices = _split_by_cores(config, devices, strategy=strategy, num_trainers=num_trainers)
    if cluster.is_evaluator:
        from trainer.cluster.servers import read_end
        from trainer.training.results.evaluator import evaluate_checkpoints

        old_end = read_end(folders.checkpoints)
        return evaluate_checkpoints(make_job(config, cluster, folders, stop), old_end)
    from trainer import loop

    check_batch_size(config, num_devices=len(devices) * num_trainers)
    if is_connected and not group:
        group = _connect(config, cluster, stop)
    if strategy == "parameter_server":
        # Only the chief reads the examples before it connects: the others wait for its facts.
        with loop.announce_outcome(cluster, folders):
            loop.train_asynchronously(make_job(config, cluster, folders, stop))
    else:
        loop.train_synchronously(make_job(config, cluster, folders, stop), devices, group)
    return 0


def _split_by_cores(
    config: TrainConfig, devices: list[str], *, strategy: str, num_trainers: int
) -> list[str]:
    from trainer.training.model.devices import count_parts, split_cpu

    num_parts = count_parts(
        strategy,
        part_size=config.recipe().part_size,
        batch_size=config.batch_size // config.micro_batches,
        num_trainers=num_trainers,
    )
    return split_cpu(num_parts) if num_parts and config.cpu_devices == 1 else devices


def _has_ring(config: TrainConfig) -> bool:
    import tensorflow as tf

    has_gpus = bool(tf.config.list_physical_devices("GPU"))
    return config.all_reduce == "ring" or (config.all_reduce == "auto" and not has_gpus)


def _connect(config: TrainConfig, cluster: Cluster, stop: threading.Event) -> "ReplicaGroup":
    from trainer.strategies.collective import CollectiveGroup
    from trainer.strategies.group import RingGroup

    group = RingGroup if _has_ring(config) else CollectiveGroup
    return group(cluster, start_timeout_seconds=config.start_timeout_seconds, stop=stop)


class TerminalHandler(logging.StreamHandler[TextIO]):
    """Handler of a terminal's log, where the next record replaces one marked `is_transient`."""

    _is_open = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, in the place of the last one if that was transient."""
        text = self.format(record)
        is_transient = getattr(record, "is_transient", False)
        if is_transient:
            # A wrapped line could not be cleared.
            text = text[: shutil.get_terminal_size().columns - 1]
        self.stream.write(
            (_CLEAR_LINE if self._is_open else "") + text + ("" if is_transient else "\n")
        )
        self._is_open = is_transient
        self.flush()


def _configure_logging(cluster: Cluster) -> None:
    # A copy of stderr, because `quiet_native_logs` holds back the original at times.
    stream = os.fdopen(os.dup(2), "w", buffering=1)
    handler = TerminalHandler(stream) if stream.isatty() else logging.StreamHandler(stream)
    logging.basicConfig(
        level=logging.INFO, format=f"{cluster.name} %(message)s", handlers=[handler], force=True
    )
    # Their errors are raised as exceptions, too, and fill pages when a replica is lost.
    for name in ("absl", "tensorflow"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _stop_on_sigterm() -> threading.Event:
    stop = threading.Event()

    def handle(signum: int, frame: object) -> None:
        stop.set()
        timer = threading.Timer(_STOP_TIMEOUT_SECONDS, end_process, [EXIT_RESTART])
        timer.daemon = True
        timer.start()

    signal.signal(signal.SIGTERM, handle)
    return stop


if __name__ == "__main__":
    end_process(main())
