"""The evaluator: a replica beside the cluster that measures each new checkpoint."""

import json
import logging
import time
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from trainer.cluster.liveness import Watch, is_reachable
from trainer.cluster.servers import read_end
from trainer.cluster.tf_config import Cluster
from trainer.errors import Preempted, ReplicaLostError, TrainerError
from trainer.training.checkpoint import Saved, list_checkpoints
from trainer.training.facts import read_facts
from trainer.training.job import Job
from trainer.training.results import best_values
from trainer.training.step import EvalStep, build_served_model

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0


def evaluate_checkpoints(job: Job, old_end: Mapping[str, Any] | None) -> int:
    """Measures checkpoints until the job has ended; returns the process's exit code.

    `old_end` is the end that was told before this replica began: perhaps that of an earlier job,
    which the chief removes when it starts.
    """
    evaluator, chief = _Evaluator(job), _Chief(job.cluster)
    deadline = time.monotonic() + job.config.start_timeout_seconds
    while True:
        loss = chief.lost()
        end = read_end(job.folders.checkpoints)
        evaluator.measure_new()
        if end and (end != old_end or time.monotonic() > deadline):
            logger.info("the job has ended: %s", end["message"])
            return int(end["exit_code"])
        if loss:
            raise ReplicaLostError(f"{loss}, and has not said that the job is over")
        if not chief.was_seen and time.monotonic() > deadline:
            raise TrainerError(
                f"waited {job.config.start_timeout_seconds} s for {job.cluster.chief_name}, and"
                f" there is no checkpoint in {job.folders.checkpoints}"
            )
        job.stop.wait(_POLL_SECONDS)
        if job.stop.is_set() and read_end(job.folders.checkpoints) in (None, old_end):
            raise Preempted("stopped by SIGTERM")


class _Chief:
    """Tells whether the chief is gone, where it is one of several replicas and so has a port."""

    def __init__(self, cluster: Cluster):
        is_alone = len(cluster.replicas(*cluster.addresses)) < 2  # noqa: PLR2004
        name = cluster.chief_name
        self._address = {} if is_alone else {name: cluster.trainers()[name]}
        self._watch: Watch | None = None

    @property
    def was_seen(self) -> bool:
        """Whether it has been there, or cannot be seen."""
        return self._watch is not None or not self._address

    def lost(self) -> str:
        """Returns "" or what has happened to it."""
        if self._watch is None and all(map(is_reachable, self._address.values())):
            self._watch = Watch(self._address)
        return self._watch.lost() if self._watch else ""


class _Evaluator:
    """Measures each checkpoint once and writes what it finds to logs/eval and evaluator.jsonl."""

    def __init__(self, job: Job):
        self._job = job
        self._measured: set[tuple[int, float]] = set()
        keras.utils.set_random_seed(job.config.seed)
        model = build_served_model(job.workload, job.config)
        self._step = EvalStep(job.workload, model, job.eval_tables())

    def measure_new(self) -> None:
        """Measures what was not measured yet, the oldest first."""
        for saved in list_checkpoints(self._job.folders.checkpoints):
            if (saved.step, saved.time) in self._measured:
                continue
            self._measured.add((saved.step, saved.time))
            if not self._job.config.fresh:  # or it may be one that is about to be deleted
                read_facts(
                    self._job.folders.checkpoints,
                    self._job.manifest.splits["train"],
                    workload=self._job.workload,
                )
            try:
                snapshot = saved.load()
            except TrainerError:
                logger.info("step %d was deleted before it could be measured", saved.step)
                continue
            self._write(saved, self._step.measure(*best_values(snapshot)))

    def _write(self, saved: Saved, metrics: Mapping[str, float]) -> None:
        log_dir = self._job.folders.logs
        writer = tf.summary.create_file_writer(f"{log_dir}/eval")
        with writer.as_default(step=saved.step):
            for name, value in metrics.items():
                tf.summary.scalar(name, value)
        writer.close()
        with tf.io.gfile.GFile(f"{log_dir}/evaluator.jsonl", "a") as file:
            file.write(json.dumps({"step": saved.step, **metrics, "time": time.time()}) + "\n")
        shown = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        logger.info("step %d eval: %s", saved.step, shown)
