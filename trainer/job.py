"""What a replica knows of its job before training."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import tensorflow as tf

from trainer.cluster import Cluster
from trainer.config import ConfigError, Folders, TrainConfig
from trainer.errors import Preempted, TrainerError
from trainer.input import Manifest, Split, adapt_workload, checked_split, read_manifest
from trainer.parameters import Schedule
from trainer.workloads import load_workload
from trainer.workloads.base import Workload

_BINARY = 2


@dataclass(frozen=True, kw_only=True)
class Job:
    """The settings of a job, this replica's place in it, and its examples."""

    config: TrainConfig
    cluster: Cluster
    folders: Folders
    stop: threading.Event
    workload: Workload
    manifest: Manifest
    train: Split
    eval: Split
    finish: threading.Event = field(default_factory=threading.Event)
    """Set by the chief when training is to end before its last step."""

    @property
    def total_steps(self) -> int:
        """The steps of the whole job."""
        return self.config.total_steps(self.train.num_examples)

    @property
    def schedule(self) -> Schedule:
        """The learning rate at each step."""
        recipe = self.config.recipe()
        return Schedule(
            peak=recipe.learning_rate,
            total_steps=self.total_steps,
            warmup=recipe.warmup,
            kind=self.config.schedule,
        )

    @property
    def steps_per_call(self) -> int:
        """The steps in one call of the graph; between two calls a checkpoint can be saved."""
        return min(self.config.steps_per_call, self.config.checkpoint_every_steps)

    def epoch(self, step: int) -> int:
        """Returns how many epochs are complete after that many steps."""
        return step * self.config.batch_size // self.train.num_examples

    def check_stop(self) -> None:
        """Raises Preempted when SIGTERM has come."""
        if self.stop.is_set():
            raise Preempted("stopped by SIGTERM")

    def check_fits(
        self, saved: Mapping[str, tf.Tensor], current: Mapping[str, tf.Tensor], *, path: str
    ) -> None:
        """Raises TrainerError when a checkpoint is of another model or optimizer."""
        for name in sorted({*saved, *current}):
            sizes = [state[name].shape if name in state else None for state in (saved, current)]
            if sizes[0] != sizes[1]:
                raise TrainerError(
                    f"the checkpoint {path} cannot be restored: it is of another model or recipe"
                    f" ({name}: {sizes[0]} there, {sizes[1]} here); give --fresh to start over, or"
                    " another --output-dir"
                )


def make_job(config: TrainConfig, cluster: Cluster, folders: Folders, stop: threading.Event) -> Job:
    """Returns the job after checking its examples; InputError names what is wrong with them."""
    manifest = read_manifest(config.examples_dir, workload=config.workload)
    train, evaluation = (
        checked_split(manifest, name, skip_corrupt=config.skip_corrupt)
        for name in ("train", "eval")
    )
    workload = adapt_workload(
        load_workload(config.workload), train, compression=manifest.compression
    )
    if config.best_metric == "auc" and len(workload.labels) != _BINARY:
        raise ConfigError(f"--best-metric auc needs two classes; {config.workload} has more")
    return Job(
        config=config,
        cluster=cluster,
        folders=folders,
        stop=stop,
        workload=workload,
        manifest=manifest,
        train=train,
        eval=evaluation,
    )
