"""One run of training on this replica, from the connected cluster to the exported model.

`train_synchronously` and `train_asynchronously` set up what differs between the strategies: the
devices, the connection to other replicas and the driver that runs the steps. The rest is the same
for all of them (`_Training.run`): restore the last checkpoint, train, and after each call of the
graph report, evaluate and save; then export the model. Only the chief writes.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer.cluster.liveness import Monitor, WorkerMonitor
from trainer.cluster.servers import announce_end, clear_end, connect
from trainer.cluster.tf_config import Cluster
from trainer.cluster.watchdog import Watchdog, end_on_stall
from trainer.config.train_config import Folders
from trainer.errors import (
    EXIT_RESTART,
    ConfigError,
    DivergedError,
    Preempted,
    ReplicaLostError,
    TrainerError,
)
from trainer.examples.bad_records import RECORD_ERRORS
from trainer.examples.tables import table_dataset
from trainer.strategies.asynchronous import (
    CALLS_PER_WORKER,
    AsyncDriver,
    CachedTable,
    Coordinator,
    StreamedBlocks,
)
from trainer.strategies.group import ReplicaGroup
from trainer.strategies.synchronous import SyncDriver
from trainer.training.assembly import assemble
from trainer.training.job import Job
from trainer.training.model.flat_model import build_served_model
from trainer.training.results.recorder import Recorder
from trainer.training.results.results import Results

logger = logging.getLogger(__name__)

# Training has diverged when the loss is so many times the first loss, or 1 if that is less.
_EXPLOSION_FACTOR = 100.0


Driver = SyncDriver | AsyncDriver


def train_synchronously(
    job: Job, devices: Sequence[str], group: ReplicaGroup | None = None
) -> None:
    """Train on this replica's devices: `single`, `mirrored` and `multi_worker_mirrored`."""
    with (
        announce_outcome(job.cluster, job.folders),
        _explain_lost_replicas(group.monitor if group else None),
    ):
        num_parts = len(devices) * (group.size if group else 1)
        training = _Training(job, devices=devices[:1], group=group, num_parts=num_parts)
        driver = SyncDriver(job, training.step, job.train_tables(), devices=devices, group=group)
        training.run(driver)


def train_asynchronously(job: Job) -> None:
    """Train on the workers of a cluster, as its chief: `parameter_server`.

    The caller announces the outcome; see `announce_outcome`.
    """
    cluster = job.cluster
    strategy = connect(
        cluster, check=job.check_stop, timeout_seconds=job.config.start_timeout_seconds
    )
    servers = Monitor(cluster.replicas("ps"))
    workers = WorkerMonitor(
        cluster.replicas("worker"), replace_seconds=job.config.replace_worker_seconds
    )
    try:
        with _explain_lost_replicas(servers):
            training = _Training(
                job,
                devices=[f"/job:ps/replica:0/task:{index}" for index in range(cluster.count("ps"))],
                num_counters=CALLS_PER_WORKER * workers.num_workers,
                is_excused=workers.are_all_lost,
            )
            coordinator = Coordinator(strategy)
            tables = (
                StreamedBlocks(job.stream, job.decoder)
                if job.stream
                else CachedTable(coordinator, table_dataset(job.train, job.decoder))
            )
            driver = AsyncDriver(
                job,
                training.step,
                tables,
                coordinator=coordinator,
                servers=servers,
                workers=workers,
            )
            training.run(driver)
    except tf.errors.DataLossError as error:
        raise job.decoder.explain(job.train.shards, error) from error
    except RECORD_ERRORS as error:
        # A worker has read the record, or the graph of a step has rejected its values.
        raise job.decoder.find_bad_record(job.train.shards) or error from error
    finally:
        workers.close()


class _Training:
    def __init__(
        self,
        job: Job,
        *,
        devices: Sequence[str],
        group: ReplicaGroup | None = None,
        num_parts: int = 1,
        num_counters: int = 0,
        is_excused: Callable[[], bool] = lambda: False,
    ):
        # Built first, because Keras numbers the names of layers and TensorBoard shows this model.
        served = build_served_model(job.workload, job.config) if job.cluster.is_chief else None
        self.step = assemble(job, devices=devices, num_parts=num_parts, num_counters=num_counters)
        self._job, self._group, self._is_excused = job, group, is_excused
        self._results = Results(job, self.step, served) if served is not None else None

    def run(self, driver: Driver) -> None:
        is_chief = self._job.cluster.is_chief
        with end_on_stall(
            self._job.config.stall_seconds,
            notify=self._announce_stall if is_chief else None,
            is_excused=self._is_excused,
            # The other replicas also wait while the chief evaluates; it ends the job if it can.
            num_warnings=0 if is_chief else 1,
        ) as watchdog:
            progress = self._results.restore() if self._results else {}
            has_finished = tf.constant(int(self._job.finish.is_set()))  # early, before a restart
            snapshot = {**self.step.parameters.snapshot(), "has_finished": has_finished}
            if self._group:
                snapshot = self._group.broadcast(snapshot)
                self.step.parameters.load(snapshot)
            start = int(snapshot["global_step"])
            if start > self._job.total_steps and not snapshot["has_finished"]:
                if self._group:
                    self._group.leave()
                raise ConfigError(
                    f"--steps: the checkpoint has {start} steps, more than the"
                    f" {self._job.total_steps} of this training, so nothing would be trained; give"
                    " more steps or epochs, --fresh, or another --output-dir"
                )
            if start < self._job.total_steps and not snapshot["has_finished"]:
                if self._results:
                    self._results.open(start, driver.progress, watchdog)
                try:
                    self._train(driver, start, progress, watchdog)
                finally:
                    if self._results:
                        self._results.close()
            else:
                logger.info("nothing is left to train: step %d was the last", start)
                if self._group:
                    self._group.leave()
            if self._results:
                self._results.export()
            else:
                logger.info("training is done; %s writes the model", self._job.cluster.chief_name)

    def _train(
        self, driver: Driver, start: int, progress: Mapping[str, Any], watchdog: Watchdog
    ) -> None:
        total, step, limit = self._job.total_steps, start, 0.0
        record = self._results.after_call if self._results else self._progress_log(start).add
        try:
            for totals in driver.run(start, total, progress):
                limit = limit or _EXPLOSION_FACTOR * max(1.0, totals.mean_loss)
                step += totals.steps
                if totals.mean_loss > limit:
                    if self._group:
                        self._group.leave()
                    raise DivergedError(
                        f"step {step}: the loss has exploded to {totals.mean_loss:.4g}"
                    )
                record(totals)
                if driver.should_stop and step < total:
                    raise Preempted(f"stopped by SIGTERM; {self._save()}, start again to resume")
                watchdog.report_progress()
        except DivergedError as error:
            raise DivergedError(f"{error}; {self._advise()}") from error

    def _progress_log(self, start: int) -> Recorder:
        return Recorder(
            "",
            first_step=start,
            total_steps=self._job.total_steps,
            every_steps=self._job.config.log_every_steps,
            measure=lambda totals: self.step.objective.metrics(
                totals.sums, num_examples=totals.examples
            ),
        )

    def _save(self) -> str:
        return f"step {self._results.save()} is saved" if self._results else "the chief saves"

    def _announce_stall(self, why: str) -> None:
        announce_end(
            self._job.folders.checkpoints, code=EXIT_RESTART, message=why, must_dump_stacks=True
        )

    def _advise(self) -> str:
        recipe = self._job.config.recipe()
        if self._results is None:
            return "see the chief's log"
        step = self._results.last_good_step()
        origin = f"the last good checkpoint, of step {step}" if step else "the beginning"
        return (
            f"a new start would resume from {origin}, so first try a lower --learning-rate (now"
            f" {recipe.learning_rate:g}), --clip-norm (now {recipe.clip_norm:g}) or a larger"
            f" --batch-size (now {self._job.config.batch_size})"
        )


@contextlib.contextmanager
def announce_outcome(cluster: Cluster, folders: Folders) -> Iterator[None]:
    """Tell workers, servers and evaluators, from the chief, that the job ended and why."""
    if not cluster.is_chief:
        yield
        return
    clear_end(folders.checkpoints)
    code, message = 1, "the chief failed; see its log"
    try:
        yield
        code, message = 0, "training is done"
    except (Preempted, ReplicaLostError) as error:
        code, message = EXIT_RESTART, str(error)
        raise
    except TrainerError as error:
        message = f"the chief failed: {error}"
        raise
    finally:
        announce_end(folders.checkpoints, code=code, message=message)


@contextlib.contextmanager
def _explain_lost_replicas(monitor: Monitor | None) -> Iterator[None]:
    """Raise errors of TensorFlow as ReplicaLostError if a lost replica caused them."""
    if monitor is None:
        yield
        return
    try:
        yield
    except tf.errors.DataLossError:
        raise
    except tf.errors.OpError as error:
        raise monitor.explain(error) from error
    finally:
        monitor.close()
