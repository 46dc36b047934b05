"""Trains: connects, restores, runs the steps, and hands them on to be recorded and saved."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import keras
import tensorflow as tf

from trainer.cluster.liveness import Monitor, WorkerMonitor
from trainer.cluster.servers import abandon, announce_end, clear_end, connect
from trainer.cluster.watchdog import Watchdog, watching
from trainer.errors import EXIT_RESTART, DivergedError, Preempted, ReplicaLostError
from trainer.examples.tables import table_dataset
from trainer.strategies.asynchronous import (
    CALLS_PER_WORKER,
    CachedTable,
    ClusterDriver,
    StreamedBlocks,
)
from trainer.strategies.collective import Ring
from trainer.strategies.synchronous import SyncDriver
from trainer.training.job import Job
from trainer.training.optimizers import make_linear_optimizer, make_optimizer
from trainer.training.parameters import Layout, Parameters
from trainer.training.pieces import LinearPart
from trainer.training.profiling import profiled
from trainer.training.recorder import Totals
from trainer.training.results import Results
from trainer.training.step import StepPlan, TrainStep, build_model, build_served_model

logger = logging.getLogger(__name__)

# How many times the first loss, or 1 where that is less, a loss may be.
_EXPLODED = 100.0


class Driver(Protocol):
    """Runs the train step; see `trainer.strategies`."""

    def run(self, start: int, stop: int, progress: Mapping[str, Any]) -> Iterator[Totals]:
        """Yields the totals of finished steps, going on from what `progress` returned."""

    def progress(self, steps_done: Sequence[int]) -> Mapping[str, Any]:
        """Returns what a checkpoint must hold beside the state, as JSON."""

    @property
    def should_stop(self) -> bool:
        """Whether to stop now; the same on every replica."""

    @property
    def should_finish(self) -> bool:
        """Whether training is done before its last step; the same on every replica."""


def train_in_step(job: Job, devices: Sequence[str], ring: Ring | None = None) -> None:
    """Trains on this replica's devices: `single`, `mirrored` and `multi_worker_mirrored`."""
    with _announcing_the_end(job), _naming_losses(ring.monitor if ring else None):
        training = _Training(job, devices=devices[:1], ring=ring)
        driver = SyncDriver(
            training.step,
            job.train_tables(),
            devices=devices,
            batch_size=job.config.batch_size,
            steps_per_call=job.steps_per_call,
            stop=job.stop,
            finish=job.finish,
            cuts=job.cuts,
            ring=ring,
        )
        training.run(driver)


def train_on_cluster(job: Job) -> None:
    """Trains on the workers of a cluster as its chief: `parameter_server`."""
    cluster = job.cluster
    with _announcing_the_end(job):
        strategy, missing = connect(
            cluster,
            check=job.check_stop,
            timeout_seconds=job.config.start_timeout_seconds,
            late_seconds=job.config.late_worker_seconds,
        )
        servers = Monitor(cluster.replicas("ps"), on_stuck=abandon)
        workers = WorkerMonitor(
            cluster.replicas("worker"),
            replace_seconds=job.config.replace_worker_seconds,
            missing=missing,
        )
        try:
            with _naming_losses(servers):
                _train_with(job, strategy, servers, workers)
        except tf.errors.DataLossError as error:
            raise job.decoder.explain(job.train.shards, error) from error
        finally:
            workers.close()


def _train_with(
    job: Job,
    strategy: tf.distribute.ParameterServerStrategy,
    servers: Monitor,
    workers: WorkerMonitor,
) -> None:
    training = _Training(
        job,
        devices=[f"/job:ps/replica:0/task:{index}" for index in range(job.cluster.count("ps"))],
        num_slots=CALLS_PER_WORKER * workers.num_workers,
        is_excused=workers.are_gone,
    )
    driver = ClusterDriver(
        training.step,
        training.parameters,
        lambda coordinator: (
            StreamedBlocks(job.stream, job.decoder)
            if job.stream
            else CachedTable(coordinator, table_dataset(job.train, job.decoder))
        ),
        strategy=strategy,
        servers=servers,
        workers=workers,
        batch_size=job.config.batch_size,
        steps_per_call=job.steps_per_call,
        stop=job.stop,
        finish=job.finish,
        cuts=job.cuts,
    )
    training.run(driver)


@contextlib.contextmanager
def _announcing_the_end(job: Job) -> Iterator[None]:
    """Tells workers, servers and evaluators how the chief has ended."""
    if not job.cluster.is_chief:
        yield
        return
    clear_end(job.folders.checkpoints)
    code, message = 1, "the chief has failed; see its log"
    try:
        yield
        code, message = 0, "training is done"
    except (Preempted, ReplicaLostError) as error:
        code, message = EXIT_RESTART, str(error)
        raise
    finally:
        announce_end(job.folders.checkpoints, code=code, message=message)


@contextlib.contextmanager
def _naming_losses(monitor: Monitor | None) -> Iterator[None]:
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


class _Training:
    """The model in training on this replica; the chief's also writes the results."""

    def __init__(
        self,
        job: Job,
        *,
        devices: Sequence[str],
        ring: Ring | None = None,
        num_slots: int = 0,
        is_excused: Callable[[], bool] = lambda: False,
    ):
        config, recipe = job.config, job.config.recipe()
        # Built first, for Keras numbers the names of layers: TensorBoard shows this one's.
        served = build_served_model(job.workload, config) if job.cluster.is_chief else None
        keras.utils.set_random_seed(config.seed)
        model = build_model(job.workload, config)
        layout = Layout(model)
        self._job, self._ring, self._is_excused = job, ring, is_excused
        self.parameters = Parameters(
            layout.read(model),
            devices=devices,
            state=layout.read_state(model),
            optimizer=make_optimizer(recipe),
            weight_decay=recipe.weight_decay,
            decay_mask=layout.decay_mask(),
            average_decay=recipe.average_decay,
            num_slots=num_slots,
            linear=_linear_part(job, model, layout),
        )
        plan = StepPlan(
            batch_size=config.batch_size,
            num_examples=job.train.num_examples,
            seed=config.seed,
            schedule=job.schedule,
            label_smoothing=recipe.label_smoothing,
            clip_norm=recipe.clip_norm,
            num_micro_batches=config.micro_batches,
            is_compiled=config.jit,
            steps_per_block=job.stream.steps_per_block if job.stream else 0,
        )
        self.step = TrainStep(job.workload, model, self.parameters, plan)
        self._results = Results(job, self.parameters, served) if served is not None else None

    def run(self, driver: Driver) -> None:
        """Trains what is left to train, then exports; ends the process if it stands still."""
        is_chief = self._job.cluster.is_chief
        with watching(
            self._job.config.stall_seconds,
            tell=self._tell_stall if is_chief else None,
            is_excused=self._is_excused,
            # The others also wait for what the chief alone does: it ends the job if it can.
            num_warnings=0 if is_chief else 1,
        ) as watchdog:
            self._run(driver, watchdog)

    def _run(self, driver: Driver, watchdog: Watchdog) -> None:
        progress = self._results.restore() if self._results else {}
        snapshot = self.parameters.snapshot()
        if self._ring:
            snapshot = self._ring.share(snapshot)
            self.parameters.load(snapshot)
        start = int(snapshot["global_step"])
        if start < self._job.total_steps:
            self._train(driver, start, progress, watchdog)
        if self._results:
            self._results.export()
        else:
            logger.info("training is done; %s writes the model", self._job.cluster.chief_name)

    def _tell_stall(self, why: str) -> None:
        announce_end(
            self._job.folders.checkpoints, code=EXIT_RESTART, message=why, must_dump_stacks=True
        )

    def _train(
        self, driver: Driver, start: int, progress: Mapping[str, Any], watchdog: Watchdog
    ) -> None:
        total, step, bound = self._job.total_steps, start, 0.0
        with self._recording(start, driver, watchdog):
            try:
                for totals in self._profiled(driver.run(start, total, progress), start):
                    bound = bound or _EXPLODED * max(1.0, totals.mean_loss)
                    step += totals.steps
                    if totals.mean_loss > bound:
                        if self._ring:
                            self._ring.part()
                        raise DivergedError(
                            f"step {step}: the loss has exploded to {totals.mean_loss:.4g}"
                        )
                    self._after_call(totals, driver, step)
                    watchdog.progressed()
                    if driver.should_finish:
                        break
            except DivergedError as error:
                raise DivergedError(f"{error}; {self._advice()}") from error

    def _profiled(self, calls: Iterator[Totals], start: int) -> Iterator[Totals]:
        steps = self._job.config.steps_to_profile()
        if not steps or self._results is None:
            return calls
        cluster, log_dir = self._job.cluster, self._job.folders.logs
        workers = cluster.replicas("worker").values() if cluster.count("ps") else ()
        return profiled(calls, start=start, steps=steps, log_dir=log_dir, workers=workers)

    @contextlib.contextmanager
    def _recording(self, start: int, driver: Driver, watchdog: Watchdog) -> Iterator[None]:
        if self._results is None:
            yield
            return
        self._results.open(start, driver.progress, watchdog)
        try:
            yield
        finally:
            self._results.close()

    def _after_call(self, totals: Totals, driver: Driver, step: int) -> None:
        if self._results:
            self._results.after_call(totals)
        if driver.should_stop and step < self._job.total_steps:
            saved = f"step {self._results.save()} is saved" if self._results else "the chief saves"
            raise Preempted(f"stopped by SIGTERM; {saved}, start again to resume")

    def _advice(self) -> str:
        recipe = self._job.config.recipe()
        if self._results is None:
            return "see the chief's log"
        step = self._results.last_good_step()
        from_where = f"the last good checkpoint, of step {step}," if step else "the beginning"
        return (
            f"started again, the job goes on from {from_where} so first try a lower"
            f" --learning-rate (now {recipe.learning_rate:g}), --clip-norm (now"
            f" {recipe.clip_norm:g}) or a larger --batch-size (now {self._job.config.batch_size})"
        )


def _linear_part(job: Job, model: Any, layout: Layout) -> LinearPart | None:
    recipe = job.config.recipe()
    if not recipe.linear_optimizer:
        return None
    return LinearPart(
        segments=layout.segments(model, job.workload.linear_variables(model)),
        optimizer=make_linear_optimizer(recipe),
        schedule=job.linear_schedule,
    )
