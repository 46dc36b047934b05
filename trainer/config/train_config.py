"""Configuration of a training job, and its command line."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import model_validator

from trainer import paths
from trainer.cluster.roles import STRATEGIES as CLUSTER_STRATEGIES
from trainer.config.flags import add_flags
from trainer.config.model_settings import ModelSettings, split_model_flags
from trainer.config.settings import (
    MOST,
    MOST_SECONDS,
    Line,
    Name,
    OneOf,
    setting,
)
from trainer.config.usage import DESCRIPTION, EPILOG
from trainer.errors import ConfigError
from trainer.workloads import BUILT_IN, WorkloadError, load_workload
from trainer.workloads.base import Recipe, Workload

STRATEGIES = ("auto", *CLUSTER_STRATEGIES)
DEFAULT_EPOCHS = 3
_MOST_WANTED = 100  # epochs: more of few examples make a model worse


class TrainSettings(ModelSettings):
    """Training."""

    model: Line = setting(
        "model of the workload, with its own recipe, such as fast and resnet20 of cifar10; default:"
        " the first",
        default="",
    )
    epochs: int | None = setting(
        f"passes over the training examples; default {DEFAULT_EPOCHS}, or more if the model's"
        " recipe says so",
        default=None,
        ge=1,
        le=100_000,
    )
    steps: int | None = setting("steps to train, instead of epochs", default=None, ge=1, le=MOST)
    batch_size: int = setting("examples per step", default=128, ge=1, le=2**20)
    learning_rate: float | None = setting(
        "the schedule's peak; default: the model's own", default=None, gt=0, le=1e20
    )
    schedule: Literal["one_cycle", "cosine", "constant", "linear"] = setting(
        "schedule of the learning rate: one_cycle rises for the model's own --warmup, then falls to"
        " zero along a cosine; the others start at the peak unless --warmup is given, then fall to"
        " zero (cosine, linear) or stay there (constant)",
        default="one_cycle",
    )
    warmup: float | None = setting(
        "share of all steps during which the learning rate rises from zero to its peak",
        default=None,
        ge=0,
        lt=1,
    )
    schedule_steps: int | None = setting(
        "steps over which --schedule is computed; default: the steps of the training. To extend a"
        " job of 1000 steps to 2000 without changing its learning rates so far, use 1000",
        default=None,
        ge=1,
        le=MOST,
    )
    weight_decay: float | None = setting(
        "weight decay, multiplied by the learning rate; default: the model's own",
        default=None,
        ge=0,
        le=1000,
    )
    label_smoothing: float | None = setting(
        "share of each label that is spread over all classes; default: the model's own",
        default=None,
        ge=0,
        lt=1,
    )
    clip_norm: float | None = setting(
        "largest norm of the gradient, 0 for no clipping; default: the model's own",
        default=None,
        ge=0,
        le=MOST,
    )
    part_size: int | None = setting(
        "without a GPU: least examples of the parts of a batch that the cores compute at the same"
        " time; 0: the cores compute each operation together; default: the model's own",
        default=None,
        ge=0,
        le=MOST,
    )
    micro_batches: int = setting(
        "equal parts in which each batch is computed, accumulating their gradients; saves memory",
        default=1,
        ge=1,
        le=2**20,
    )
    mixed_precision: bool = setting(
        "compute in bfloat16 where the CPU or GPU supports it, with weights in float32",
        default=False,
    )
    jit: bool = setting(
        "compile the train step with XLA; slower for convolutions on CPUs",
        default=False,
    )
    seed: int = setting(
        "seed of initial weights, example order and augmentation",
        default=0,
        ge=0,
        le=2**31 - 1,
    )
    all_reduce: Literal["auto", "ring", "collectives"] = setting(
        "multi_worker_mirrored: connect the replicas in a ring over TCP, or by TensorFlow's"
        " collectives, which use NCCL; auto is the ring without GPUs",
        default="auto",
    )
    message_dtype: Literal["float32", "bfloat16"] = setting(
        "parameter_server: format in which weights and gradients travel; bfloat16 halves the bytes"
        " and keeps 3 digits, while the server keeps and updates the weights in float32",
        default="float32",
    )
    cpu_devices: int = setting(
        "mirrored without a GPU: number of logical CPU devices",
        default=1,
        ge=1,
        le=128,
    )
    checkpoint_every_steps: int = setting("steps between checkpoints", default=500, ge=1, le=MOST)
    checkpoint_every_seconds: int | None = setting(
        "seconds between checkpoints, instead of steps",
        default=None,
        ge=1,
        le=MOST_SECONDS,
    )
    keep_checkpoints: int = setting(
        "latest checkpoints to keep; the best one is kept as well",
        default=3,
        ge=1,
        le=10_000,
    )
    best_metric: Name = setting(
        "metric on the eval split that decides which checkpoint is the best: loss, accuracy, auc,"
        " mae, …, or a metric of the compiled model; NAME:min or NAME:max says what is better",
        default="loss",
    )
    cache: Literal["auto", "memory", "stream"] = setting(
        "where the examples of a split are kept: in memory, or streamed from the files in blocks"
        " that are shuffled separately; auto: in memory if they take at most --cache-gb, decoded",
        default="auto",
    )
    cache_gb: float = setting(
        "gigabytes of memory for decoded examples; also decides the size of streamed blocks",
        default=4.0,
        gt=0,
        le=100_000,
    )
    patience: int | None = setting(
        "epochs without a better --best-metric after which training stops and the best"
        " checkpoint is exported; default: train to the end and export the last",
        default=None,
        ge=1,
        le=100_000,
    )
    steps_per_call: int = setting("steps per call of the graph", default=50, ge=1, le=100_000)
    histograms: bool = setting(
        "TensorBoard: write histograms of each layer's weights at the end of each epoch",
        default=False,
    )
    log_every_steps: int = setting(
        "steps between two log lines of metrics", default=100, ge=1, le=MOST
    )
    start_timeout_seconds: int = setting(
        "how long replicas wait for each other to start",
        default=600,
        ge=1,
        le=MOST_SECONDS,
    )
    replace_worker_seconds: int = setting(
        "parameter_server: how long a job that has lost all workers waits for one",
        default=300,
        ge=1,
        le=MOST_SECONDS,
    )
    stall_seconds: float = setting(
        "stop a job in which no step, evaluation or checkpoint finishes for this long, and log"
        " the stacks of all threads of each replica; restarted, the job resumes",
        default=600.0,
        gt=0,
        le=MOST_SECONDS,
    )
    fresh: bool = setting("delete the folder's checkpoints and start over", default=False)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.epochs is not None and self.steps is not None:
            raise ConfigError("--steps and --epochs cannot both be given; leave one out")
        if self.batch_size % self.micro_batches:
            raise ConfigError(
                f"--micro-batches is {self.micro_batches}; it must divide --batch-size"
                f" {self.batch_size}"
            )
        return self


class TrainConfig(TrainSettings):
    """Settings of a training job; each is a flag of `python -m trainer.task`.

    A user's file may use TensorFlow when it is imported, so it is not loaded here: the first call
    of `recipe` does so, and checks the settings that depend on the workload.
    """

    workload: Name = setting(
        f"what to train: one of {', '.join(BUILT_IN)}; or the path of a folder with a workload.py,"
        " a package.module, or an entry point of trainyard.workloads"
    )
    examples_dir: Name = setting("folder with manifest.json and the TFRecord shards")
    output_dir: Line = setting("folder to write to; default: the AIP_* folders", default="")
    strategy: Annotated[str, OneOf(STRATEGIES)] = setting("auto follows TF_CONFIG", default="auto")

    @model_validator(mode="after")
    def _check_recipe(self) -> Self:
        if self.workload in BUILT_IN:
            self.recipe()
        return self

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
        root = paths.opened(output_dir).rstrip("/")
        return Folders(
            model=f"{root}/model", checkpoints=f"{root}/checkpoints", logs=f"{root}/logs"
        )
    names = ("AIP_MODEL_DIR", "AIP_CHECKPOINT_DIR", "AIP_TENSORBOARD_LOG_DIR")
    missing = [name for name in names if not environ.get(name)]
    if missing:
        raise ConfigError(
            f"--output-dir is missing, and {', '.join(missing)} not set; set --output-dir"
        )
    model, checkpoints, logs = (paths.opened(environ[name]).rstrip("/") for name in names)
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
    add_flags(parser, TrainConfig, leave_out=["model_settings"])
    trainer_flags, model_settings = split_model_flags(sys.argv[1:] if argv is None else argv)
    try:
        return TrainConfig.from_texts(vars(parser.parse_args(trainer_flags)) | model_settings)
    except ConfigError as error:
        parser.error(str(error))
