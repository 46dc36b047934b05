"""Configuration of a training job, and its command line."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

from trainer import paths
from trainer.cluster.roles import STRATEGIES as CLUSTER_STRATEGIES
from trainer.config.flags import add_flags
from trainer.config.model_settings import ModelSettings, split_model_flags, split_model_settings
from trainer.config.settings import MOST_SECONDS, check_settings, flag_name, setting
from trainer.config.usage import DESCRIPTION, EPILOG
from trainer.errors import ConfigError
from trainer.workloads import BUILT_IN, WorkloadError, load_workload
from trainer.workloads.base import Recipe, Workload

SCHEDULES = ("one_cycle", "cosine", "constant", "linear")
STRATEGIES = ("auto", *CLUSTER_STRATEGIES)
DEFAULT_EPOCHS = 3
_MOST_WANTED = 100  # epochs: more of few examples make a model worse


@dataclass(frozen=True, kw_only=True)
class TrainConfig(ModelSettings):
    """Settings of a training job; each is a flag of `python -m trainer.task`.

    A user's file may use TensorFlow when it is imported, so it is not loaded here: the first call
    of `recipe` does so, and checks the settings that depend on the workload.
    """

    workload: str = setting(
        f"what to train: one of {', '.join(BUILT_IN)}; or the path of a folder with a workload.py,"
        " a package.module, or an entry point of trainyard.workloads"
    )
    examples_dir: str = setting("folder with manifest.json and the TFRecord shards")
    output_dir: str = setting("folder to write to; default: the AIP_* folders", default="")
    model: str = setting(
        "model of the workload, with its own recipe, such as fast and resnet20 of cifar10; default:"
        " the first",
        default="",
    )
    epochs: int | None = setting(
        f"passes over the training examples; default {DEFAULT_EPOCHS}, or more if the model's"
        " recipe says so",
        default=None,
        at_least=1,
        at_most=100_000,
    )
    steps: int | None = setting("steps to train, instead of epochs", default=None, at_least=1)
    batch_size: int = setting("examples per step", default=128, at_least=1, at_most=2**20)
    learning_rate: float | None = setting(
        "the schedule's peak; default: the model's own", default=None, above=0, at_most=1e20
    )
    schedule: str = setting(
        "schedule of the learning rate: one_cycle rises for the model's own --warmup, then falls to"
        " zero along a cosine; the others start at the peak unless --warmup is given, then fall to"
        " zero (cosine, linear) or stay there (constant)",
        default="one_cycle",
        choices=SCHEDULES,
    )
    warmup: float | None = setting(
        "share of all steps during which the learning rate rises from zero to its peak",
        default=None,
        at_least=0,
        below=1,
    )
    schedule_steps: int | None = setting(
        "steps over which --schedule is computed; default: the steps of the training. To extend a"
        " job of 1000 steps to 2000 without changing its learning rates so far, use 1000",
        default=None,
        at_least=1,
        is_advanced=True,
    )
    weight_decay: float | None = setting(
        "weight decay, multiplied by the learning rate; default: the model's own",
        default=None,
        at_least=0,
        at_most=1000,
    )
    label_smoothing: float | None = setting(
        "share of each label that is spread over all classes; default: the model's own",
        default=None,
        at_least=0,
        below=1,
    )
    average_decay: float | None = setting(
        "decay of the moving average of the weights, 0 for none; default: the model's own",
        default=None,
        at_least=0,
        below=1,
    )
    clip_norm: float | None = setting(
        "largest norm of the gradient, 0 for no clipping; default: the model's own",
        default=None,
        at_least=0,
    )
    part_size: int | None = setting(
        "without a GPU: least examples of the parts of a batch that the cores compute at the same"
        " time; 0: the cores compute each operation together; default: the model's own",
        default=None,
        at_least=0,
        is_advanced=True,
    )
    micro_batches: int = setting(
        "equal parts in which each batch is computed, accumulating their gradients; saves memory",
        default=1,
        at_least=1,
        at_most=2**20,
        is_advanced=True,
    )
    mixed_precision: bool = setting(
        "compute in bfloat16 where the CPU or GPU supports it, with weights in float32",
        default=False,
    )
    jit: bool = setting(
        "compile the train step with XLA; slower for convolutions on CPUs",
        default=False,
        is_advanced=True,
    )
    seed: int = setting(
        "seed of initial weights, example order and augmentation",
        default=0,
        at_least=0,
        at_most=2**31 - 1,
    )
    strategy: str = setting("auto follows TF_CONFIG", default="auto", choices=STRATEGIES)
    all_reduce: str = setting(
        "multi_worker_mirrored: connect the replicas in a ring over TCP, or by TensorFlow's"
        " collectives, which use NCCL; auto is the ring without GPUs",
        default="auto",
        choices=("auto", "ring", "collectives"),
        is_advanced=True,
    )
    message_dtype: str = setting(
        "parameter_server: format in which weights and gradients travel; bfloat16 halves the bytes"
        " and keeps 3 digits, while the server keeps and updates the weights in float32",
        default="float32",
        choices=("float32", "bfloat16"),
        is_advanced=True,
    )
    cpu_devices: int = setting(
        "mirrored without a GPU: number of logical CPU devices",
        default=1,
        at_least=1,
        at_most=128,
        is_advanced=True,
    )
    checkpoint_every_steps: int = setting("steps between checkpoints", default=500, at_least=1)
    checkpoint_every_seconds: int | None = setting(
        "seconds between checkpoints, instead of steps",
        default=None,
        at_least=1,
        at_most=MOST_SECONDS,
        is_advanced=True,
    )
    keep_checkpoints: int = setting(
        "latest checkpoints to keep; the best one is kept as well",
        default=3,
        at_least=1,
        at_most=10_000,
    )
    best_metric: str = setting(
        "metric on the eval split that decides which checkpoint is the best: loss, accuracy, auc,"
        " mae, …, or a metric of the compiled model; NAME:min or NAME:max says what is better",
        default="loss",
    )
    cache: str = setting(
        "where the examples of a split are kept: in memory, or streamed from the files in blocks"
        " that are shuffled separately; auto: in memory if they take at most --cache-gb, decoded",
        default="auto",
        choices=("auto", "memory", "stream"),
    )
    cache_gb: float = setting(
        "gigabytes of memory for decoded examples; also decides the size of streamed blocks",
        default=4.0,
        above=0,
        at_most=100_000,
        is_advanced=True,
    )
    patience: int | None = setting(
        "epochs without a better --best-metric after which training stops and the best"
        " checkpoint is exported; default: train to the end and export the last",
        default=None,
        at_least=1,
        at_most=100_000,
    )
    steps_per_call: int = setting(
        "steps per call of the graph", default=50, at_least=1, at_most=100_000, is_advanced=True
    )
    profile_steps: str = setting(
        "FIRST-LAST, such as 101-150: write a trace of these steps to logs/, for TensorBoard's"
        " profile plugin, from the replica that writes the results and from a chief's workers and"
        " parameter servers",
        default="",
    )
    histograms: bool = setting(
        "TensorBoard: write histograms of each layer's weights at the end of each epoch",
        default=False,
    )
    log_every_steps: int = setting(
        "steps between two log lines of metrics", default=100, at_least=1, is_advanced=True
    )
    start_timeout_seconds: int = setting(
        "how long replicas wait for each other to start",
        default=600,
        at_least=1,
        at_most=MOST_SECONDS,
        is_advanced=True,
    )
    replace_worker_seconds: int = setting(
        "parameter_server: how long a job that has lost all workers waits for one",
        default=300,
        at_least=1,
        at_most=MOST_SECONDS,
        is_advanced=True,
    )
    stall_seconds: float = setting(
        "stop a job in which no step, evaluation or checkpoint finishes for this long, and log"
        " the stacks of all threads of each replica; restarted, the job resumes",
        default=600.0,
        above=0,
        at_most=MOST_SECONDS,
        is_advanced=True,
    )
    fresh: bool = setting("delete the folder's checkpoints and start over", default=False)

    def __post_init__(self) -> None:
        check_settings(self, label=flag_name)
        if self.epochs is not None and self.steps is not None:
            raise ConfigError("--steps and --epochs cannot both be given; leave one out")
        if self.batch_size % self.micro_batches:
            raise ConfigError(
                f"--micro-batches is {self.micro_batches}; it must divide --batch-size"
                f" {self.batch_size}"
            )
        self.steps_to_profile()
        if self.workload in BUILT_IN:
            self.recipe()

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Self:
        """Return the configuration of settings by name; `model.NAME` is a setting of the model."""
        return cls(**split_model_settings(values))

    def chosen_workload(self) -> Workload:
        """Return the workload with the model that the settings describe.

        ConfigError if there is none, or its file or a setting of its model is wrong.
        """
        workload = self._workload
        try:
            workload.recipe_of(self.model)
        except ValueError as error:
            raise ConfigError(f"--model: {error}") from error
        return self.adapt(workload, self.model)

    @cached_property
    def _workload(self) -> Workload:
        """The workload as declared; loaded once, for its file may change during the training."""
        try:
            return load_workload(self.workload)
        except WorkloadError as error:
            raise ConfigError(str(error)) from error

    def recipe(self) -> Recipe:
        """Return the model's recipe with the given settings; raise as `chosen_workload` does."""
        recipe = self.apply(self.chosen_workload().recipe_of(self.model))
        settings = {field.name: getattr(self, field.name, None) for field in fields(recipe)}
        changes = {name: value for name, value in settings.items() if value is not None}
        if self.schedule != "one_cycle":
            changes.setdefault("warmup", 0.0)
        if self.weight_decay is not None:
            changes["decay_examples"] = 0
        return replace(recipe, **changes)

    def steps_to_profile(self) -> range:
        """Return the steps to trace, counted from 1; empty by default."""
        if not self.profile_steps:
            return range(0)
        match = re.fullmatch(r"(\d{1,12})-(\d{1,12})", self.profile_steps, re.ASCII)
        first, last = map(int, match.groups()) if match else (0, 0)
        if not 1 <= first <= last:
            raise ConfigError(
                f"--profile-steps is {self.profile_steps!r}; use FIRST-LAST, two whole numbers from"
                " 1 in ascending order, such as 101-150"
            )
        return range(first, last + 1)

    def total_steps(self, num_examples: int) -> int:
        """Return the steps of the whole job."""
        if self.steps is not None:
            return self.steps
        steps_per_epoch = -(-num_examples // self.batch_size)
        if self.epochs is not None:
            return self.epochs * steps_per_epoch
        recipe = self.recipe()
        least, wanted = (
            -(-steps // steps_per_epoch) for steps in (recipe.min_steps, recipe.wanted_steps)
        )
        return max(least, min(wanted, _MOST_WANTED), DEFAULT_EPOCHS) * steps_per_epoch


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Output folders of a job."""

    model: str
    checkpoints: str
    logs: str


def resolve_folders(output_dir: str, environ: Mapping[str, str]) -> Folders:
    """Return the folders below `output_dir`, or without it Vertex AI's AIP_* variables."""
    if output_dir:
        root = paths.uri(output_dir).rstrip("/")
        return Folders(
            model=f"{root}/model", checkpoints=f"{root}/checkpoints", logs=f"{root}/logs"
        )
    names = ("AIP_MODEL_DIR", "AIP_CHECKPOINT_DIR", "AIP_TENSORBOARD_LOG_DIR")
    missing = [name for name in names if not environ.get(name)]
    if missing:
        raise ConfigError(
            f"--output-dir is missing, and {', '.join(missing)} not set; set --output-dir"
        )
    model, checkpoints, logs = (paths.uri(environ[name]).rstrip("/") for name in names)
    return Folders(model=model, checkpoints=checkpoints, logs=logs)


def parse_flags(argv: Sequence[str] | None = None) -> TrainConfig:
    """Return the settings of the command line; a wrong one exits with code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.task",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_flags(parser, TrainConfig)
    trainer_flags, model_settings = split_model_flags(sys.argv[1:] if argv is None else argv)
    values = {**vars(parser.parse_args(trainer_flags)), "model_settings": model_settings}
    try:
        return TrainConfig(**values)
    except ConfigError as error:
        parser.error(str(error))
