"""The entry of every replica: `python -m trainer.task`."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence

from trainer.cluster import Cluster, choose_strategy, parse_tf_config
from trainer.config import ConfigError, Folders, TrainConfig, parse_flags, resolve_folders
from trainer.errors import ClusterError, Preempted, TrainerError, first_line
from trainer.liveness import end_process
from trainer.quiet import import_tensorflow

logger = logging.getLogger(__name__)

EXIT_STOPPED = 128 + signal.SIGTERM
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
        return EXIT_STOPPED
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
    import_tensorflow()
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
    if cluster.task_type != "chief" and strategy == "parameter_server":
        from trainer.replica import serve_replica

        return serve_replica(cluster, folders.checkpoints, stop=stop)
    from trainer.loop import make_job, train_on_cluster, train_single

    job = make_job(config, cluster, folders, stop)
    train_on_cluster(job) if strategy == "parameter_server" else train_single(job)
    return 0


def _configure_logging(cluster: Cluster) -> None:
    logging.basicConfig(
        level=logging.INFO, format=f"{cluster.name} %(message)s", stream=sys.stderr, force=True
    )
    for chatty in ("absl", "tensorflow"):
        logging.getLogger(chatty).setLevel(logging.ERROR)


def _stop_on_sigterm() -> threading.Event:
    stop = threading.Event()

    def handle(signum: int, frame: object) -> None:
        del signum, frame
        stop.set()
        late = threading.Timer(_STOP_WITHIN_SECONDS, end_process, [EXIT_STOPPED])
        late.daemon = True
        late.start()

    signal.signal(signal.SIGTERM, handle)
    return stop


if __name__ == "__main__":
    end_process(main())
