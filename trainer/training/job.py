"""A training job as one replica sees it: settings, cluster and examples."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from trainer.cluster.tf_config import Cluster
from trainer.config.model_settings import FTRL_LEARNING_RATE
from trainer.config.train_config import Folders, TrainConfig
from trainer.errors import ConfigError, Preempted
from trainer.examples.batches import Batches
from trainer.examples.decoded_rows import keep_rows
from trainer.examples.manifest import ExamplesFolder, SplitFiles, checked_split, read_manifest
from trainer.examples.stream import (
    BlockTables,
    Stream,
    Tables,
    WholeTable,
    is_streamed,
    plan_stream,
)
from trainer.examples.tables import Decoder, SplitChunks, sample_rows
from trainer.training.facts import find_facts, read_facts
from trainer.training.optimizers.schedule import Schedule
from trainer.workloads.base import Workload
from trainer.workloads.models.line import MAX_LINE_ROWS


@dataclass(frozen=True, kw_only=True)
class Job:
    """Settings and examples of a training job, and the place of this replica in its cluster."""

    config: TrainConfig
    cluster: Cluster
    folders: Folders
    stop: threading.Event
    workload: Workload
    manifest: ExamplesFolder
    train: SplitFiles
    eval: SplitFiles
    decoder: Decoder
    """The decoder of both splits' records."""
    stream: Stream | None = None
    """The order and blocks of the training examples, if they do not fit in memory."""
    finish: threading.Event = field(default_factory=threading.Event)
    """Set by the chief to end training before its last step."""

    def train_tables(self) -> Tables:
        """Return the training examples, read into memory or block by block."""
        if self.stream:
            has_epochs = self.total_steps > self.batches.per_epoch
            reader = keep_rows(self.train, self.decoder) if has_epochs else self.decoder
            return BlockTables(self.stream, reader)
        return WholeTable(self.decoder.read_split(self.train))

    def eval_tables(self) -> Iterable[Any]:
        """Return the eval split: one table in memory, or small ones read anew in each iteration.

        Its examples may lack labels.
        """
        if is_streamed(self.config, self.eval, self.decoder):
            return SplitChunks(self.eval, self.decoder, may_lack_labels=True)
        return [self.decoder.read_split(self.eval, may_lack_labels=True)]

    def fit_line(self) -> Any:
        """Return the Line of the workload's default model, fitted to the train split, or None."""
        if not self.workload.has_linear_part:
            return None
        decoder = replace(self.decoder, is_raw=True)
        return self.workload.fit_line(*sample_rows(self.train, decoder, MAX_LINE_ROWS))

    @property
    def batches(self) -> Batches:
        """The division of the training examples into batches."""
        if self.stream:
            return self.stream.batches
        size, seed = self.config.batch_size, self.config.seed
        return Batches(size=size, num_examples=self.train.num_examples, seed=seed)

    @property
    def total_steps(self) -> int:
        """The number of steps of the whole job."""
        return self.config.total_steps(self.train.num_examples)

    @property
    def schedule(self) -> Schedule:
        """The learning rate of each step."""
        recipe = self.config.recipe()
        return Schedule(
            peak=recipe.learning_rate,
            total_steps=self.config.schedule_steps or self.total_steps,
            warmup=recipe.warmup,
            kind=self.config.schedule,
        )

    @property
    def linear_schedule(self) -> Schedule:
        """The learning rate of the model's linear part, if that has its own optimizer."""
        recipe, schedule = self.config.recipe(), self.schedule
        if recipe.linear_optimizer == "ftrl":
            peak = recipe.linear_learning_rate or FTRL_LEARNING_RATE
            return replace(schedule, peak=peak, warmup=0.0, kind="constant")
        return replace(schedule, peak=recipe.linear_learning_rate or schedule.peak)

    @property
    def steps_per_call(self) -> int:
        """The most steps in one call of the graph: checkpoints are saved between two calls."""
        return min(self.config.steps_per_call, self.config.checkpoint_every_steps)

    @property
    def decides_at_epochs(self) -> bool:
        """True if callbacks or --patience may change or end training after an epoch."""
        return bool(self.workload.callbacks) or self.config.patience is not None

    @property
    def num_epochs(self) -> int:
        """The number of epochs that begin in the whole job."""
        return -(-self.total_steps // self.batches.per_epoch)

    def boundary_after(self, step: int) -> int:
        """Return the next number of finished steps at which a call of the graph must end.

        These are the last step and, if something is decided after each epoch, the ends of epochs.
        """
        if self.decides_at_epochs:
            return (self.epoch(step) + 1) * self.batches.per_epoch
        return self.total_steps

    def epoch(self, step: int) -> int:
        """Return the number of epochs that are complete after `step` steps."""
        return step // self.batches.per_epoch

    def may_save(self, before: int, after: int) -> bool:
        """Return True if a checkpoint may be saved after a call between two numbers of steps.

        This is the same on all replicas, so checkpoints by seconds are left out.
        """
        every = self.config.checkpoint_every_steps
        return before // every < after // every or self.epoch(before) < self.epoch(after)

    def check_stop(self) -> None:
        """Raise Preempted if SIGTERM was received."""
        if self.stop.is_set():
            raise Preempted("stopped by SIGTERM")


def make_job(config: TrainConfig, cluster: Cluster, folders: Folders, stop: threading.Event) -> Job:
    """Return the job.

    Raises:
        ConfigError: a setting does not fit the examples.
        InputError: the examples are incomplete or damaged, or differ from the checkpoints' ones.
    """
    workload = config.chosen_workload()
    manifest = read_manifest(config.examples_dir, workload=workload.name)
    train, evaluation = checked_split(manifest, "train"), checked_split(manifest, "eval")
    facts = (
        None
        if config.fresh
        else read_facts(folders.checkpoints, manifest.splits["train"], workload=workload)
    )
    if facts is None:
        workload = find_facts(workload, train, compression=manifest.compression)
    else:
        workload = workload.with_facts(facts)
    decoder = Decoder(workload=workload, compression=manifest.compression)
    # With parameter servers a block is a call, and checkpoints are saved between two calls.
    most_steps = config.checkpoint_every_steps if cluster.count("ps") else None
    return Job(
        config=config,
        cluster=cluster,
        folders=folders,
        stop=stop,
        workload=workload,
        manifest=manifest,
        train=train,
        eval=evaluation,
        decoder=decoder,
        stream=plan_stream(config, train, decoder, most_steps=most_steps),
    )


def check_batch_size(config: TrainConfig, *, num_devices: int) -> None:
    """Raise ConfigError if a batch has fewer examples than devices times micro-batches."""
    num_parts = num_devices * config.micro_batches
    if config.batch_size < num_parts:
        parts = f"{num_devices} devices" + (
            f" and --micro-batches {config.micro_batches}" if config.micro_batches > 1 else ""
        )
        raise ConfigError(
            f"--batch-size: {config.batch_size} examples cannot be divided over {parts}; the"
            f" whole batch has this size: give at least {num_parts}"
        )
