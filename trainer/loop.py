"""Trains: connects, restores, runs the steps, measures, saves and exports."""

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import keras
import tensorflow as tf

from trainer.checkpoint import Checkpoints, delete_folder
from trainer.cluster import Cluster
from trainer.config import Folders, TrainConfig
from trainer.drivers import ClusterDriver, SingleDriver
from trainer.errors import InputError, Preempted
from trainer.export import export_model
from trainer.input import (
    Manifest,
    Split,
    adapt_workload,
    checked_split,
    damage_message,
    read_manifest,
    read_table,
    table_dataset,
)
from trainer.liveness import Monitor
from trainer.metrics import Recorder, Totals
from trainer.optimizers import make_optimizer
from trainer.parameters import Layout, Parameters, Schedule
from trainer.replica import abandon, announce_end, clear_end, connect
from trainer.step import EvalStep, StepPlan, TrainStep, build_model
from trainer.workloads import load_workload
from trainer.workloads.base import Workload

logger = logging.getLogger(__name__)


class Driver(Protocol):
    """Runs the train step; see trainer.drivers."""

    def run(self, start: int, stop: int) -> Iterator[Totals]:
        """Yields the totals of finished steps."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What the chief knows of the job before training."""

    config: TrainConfig
    cluster: Cluster
    folders: Folders
    stop: threading.Event
    workload: Workload
    manifest: Manifest
    train: Split
    eval: Split

    @property
    def total_steps(self) -> int:
        """The steps of the whole job."""
        return self.config.total_steps(self.train.num_examples)

    @property
    def schedule(self) -> Schedule:
        """The learning rate at each step."""
        recipe = self.config.recipe()
        return Schedule(
            peak=recipe.learning_rate, total_steps=self.total_steps, warmup=recipe.warmup
        )

    def check_stop(self) -> None:
        """Raises Preempted when SIGTERM has come."""
        if self.stop.is_set():
            raise Preempted("stopped by SIGTERM")


def make_job(config: TrainConfig, cluster: Cluster, folders: Folders, stop: threading.Event) -> Job:
    """Returns the job after checking its examples; InputError names what is wrong with them."""
    manifest = read_manifest(config.examples_dir, workload=config.workload)
    train = checked_split(manifest, "train")
    workload = adapt_workload(
        load_workload(config.workload), train, compression=manifest.compression
    )
    return Job(
        config=config,
        cluster=cluster,
        folders=folders,
        stop=stop,
        workload=workload,
        manifest=manifest,
        train=train,
        eval=checked_split(manifest, "eval"),
    )


def train_single(job: Job) -> None:
    """Trains in this process."""
    state = _State(job, devices=["/device:CPU:0"])
    table = read_table(job.train, job.workload, compression=job.manifest.compression)
    driver = SingleDriver(
        state.step,
        table,
        batch_size=job.config.batch_size,
        steps_per_call=job.config.steps_per_call,
    )
    state.train(driver)


def train_on_cluster(job: Job) -> None:
    """Trains on the workers of a cluster as its chief; tells all replicas how it ended."""
    clear_end(job.folders.checkpoints)
    code, message = 1, "the chief has failed; see its log"
    try:
        _coordinate(job)
        code, message = 0, "training is done"
    except Preempted as preempted:
        code, message = 143, str(preempted)
        raise
    finally:
        announce_end(job.folders.checkpoints, code=code, message=message)


def _coordinate(job: Job) -> None:
    cluster = job.cluster
    strategy = connect(cluster, check=job.check_stop)
    monitor = Monitor(cluster.replicas("worker", "ps"), on_stuck=abandon)
    try:
        _train_with(job, strategy, monitor)
    except tf.errors.DataLossError as error:
        raise InputError(damage_message(job.train, error)) from error
    except tf.errors.OpError as error:
        raise monitor.explain(error) from error
    finally:
        monitor.close()


def _train_with(
    job: Job, strategy: tf.distribute.ParameterServerStrategy, monitor: Monitor
) -> None:
    num_ps, num_workers = job.cluster.count("ps"), job.cluster.count("worker")
    state = _State(job, devices=[f"/job:ps/replica:0/task:{index}" for index in range(num_ps)])
    driver = ClusterDriver(
        state.step,
        table_dataset(job.train, job.workload, compression=job.manifest.compression),
        strategy=strategy,
        monitor=monitor,
        num_workers=num_workers,
        batch_size=job.config.batch_size,
        steps_per_call=job.config.steps_per_call,
    )
    state.train(driver)


class _State:
    """The model in training, with what saves, measures and exports it."""

    def __init__(self, job: Job, *, devices: list[str]):
        config = job.config
        if config.fresh:
            delete_folder(job.folders.checkpoints)
        keras.utils.set_random_seed(config.seed)
        self._job = job
        self._model = build_model(job.workload, config)
        self._layout = Layout(self._model)
        recipe = config.recipe()
        self._parameters = Parameters(
            self._layout.read(self._model),
            devices=devices,
            state=self._layout.read_state(self._model),
            optimizer=make_optimizer(recipe),
            weight_decay=recipe.weight_decay,
            decay_mask=self._layout.decay_mask(),
            average_decay=recipe.average_decay,
        )
        self._checkpoints = Checkpoints(
            self._model,
            self._parameters,
            directory=job.folders.checkpoints,
            keep=config.keep_checkpoints,
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
        )
        self.step = TrainStep(job.workload, self._model, self._parameters, plan)

    def train(self, driver: Driver) -> None:
        """Trains what is left to train, then exports."""
        job = self._job
        start = self._start()
        if start < job.total_steps:
            self._train(driver, start)
        self._layout.write(
            self._parameters.pull_best(), self._model, state=self._parameters.pull_state()
        )
        export_model(self._model, job.workload, job.folders.model)
        logger.info("the model is in %s", job.folders.model)

    def _start(self) -> int:
        job = self._job
        start = self._checkpoints.restore()
        if start:
            logger.info("resuming from step %d", start)
        else:
            delete_folder(job.folders.logs)
        return start

    def _train(self, driver: Driver, start: int) -> None:
        job = self._job
        recorder = Recorder(
            job.folders.logs,
            first_step=start,
            total_steps=job.total_steps,
            every_steps=job.config.log_every_steps,
        )
        table = read_table(job.eval, job.workload, compression=job.manifest.compression)
        evaluation = EvalStep(job.workload, self._model, table)
        try:
            for totals in driver.run(start, job.total_steps):
                self._after_call(totals, recorder, evaluation)
        finally:
            recorder.close()

    def _after_call(self, totals: Totals, recorder: Recorder, evaluation: EvalStep) -> None:
        job, before = self._job, recorder.step
        step = before + totals.steps
        recorder.add(totals, learning_rate=float(job.schedule.rate(tf.constant(step))))
        is_last = step >= job.total_steps
        if self._job.stop.is_set() and not is_last:
            saved = self._checkpoints.save()
            raise Preempted(f"stopped by SIGTERM; step {saved} is saved, start again to resume")
        if is_last or _crosses(before, step, job.config.checkpoint_every_steps):
            self._checkpoints.save()
        if is_last or self._epoch(before) < self._epoch(step):
            best, state = self._parameters.pull_best(), self._parameters.pull_state()
            recorder.add_evaluation(evaluation.measure(best, state))

    def _epoch(self, step: int) -> int:
        return step * self._job.config.batch_size // self._job.train.num_examples


def _crosses(before: int, after: int, every: int) -> bool:
    return before // every < after // every
