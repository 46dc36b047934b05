"""What a training job is told: one list of settings, from which the command line is made."""

import argparse
import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from trainer import paths
from trainer.cluster import tf_config
from trainer.config.model_settings import ModelSettings, as_texts
from trainer.config.settings import ConfigError, add_flags, check, setting
from trainer.config.usage import DESCRIPTION, EPILOG
from trainer.workloads import WORKLOADS, load_workload
from trainer.workloads.base import Recipe, Workload

SCHEDULES = ("one_cycle", "cosine", "constant", "linear")
STRATEGIES = ("auto", *tf_config.STRATEGIES)
DEFAULT_EPOCHS = 3


def _models_help() -> str:
    models = "; ".join(
        f"{name}: {', '.join(load_workload(name).recipes)}" for name in sorted(WORKLOADS)
    )
    return f"which of the workload's models, with its recipe; default: the first ({models})"


@dataclass(frozen=True, kw_only=True)
class TrainConfig(ModelSettings):
    """The settings of one training job. Every field is a flag of `python -m trainer.task`."""

    workload: str = setting("what to train", choices=tuple(sorted(WORKLOADS)))
    examples_dir: str = setting("folder with manifest.json and the TFRecord shards")
    output_dir: str = setting("folder to write to; default: the AIP_* folders", default="")
    model: str = setting(_models_help(), default="")
    epochs: int | None = setting(
        f"passes over the training examples; default {DEFAULT_EPOCHS}", default=None, at_least=1
    )
    steps: int | None = setting("steps to train, instead of epochs", default=None, at_least=1)
    batch_size: int = setting("examples per step", default=128, at_least=1)
    learning_rate: float | None = setting(
        "the schedule's peak; default: the model's own", default=None, above=0
    )
    schedule: str = setting(
        "how the learning rate goes: one_cycle rises for the model's own --warmup, then falls to"
        " zero as a cosine; the others start at the peak unless --warmup is given, and fall to"
        " zero (cosine, linear) or stay (constant)",
        default="one_cycle",
        choices=SCHEDULES,
    )
    warmup: float | None = setting(
        "share of all steps in which the learning rate rises from zero to its peak",
        default=None,
        at_least=0,
        below=1,
    )
    schedule_steps: int | None = setting(
        "steps that --schedule is computed over; default: those of the training. To train a job of"
        " 1000 steps up to 2000 and leave the learning rate as it was meant to go, give 1000",
        default=None,
        at_least=1,
    )
    weight_decay: float | None = setting(
        "decay of the weights, times the learning rate; default: the model's own",
        default=None,
        at_least=0,
    )
    label_smoothing: float | None = setting(
        "share of each label that all classes get; default: the model's own",
        default=None,
        at_least=0,
        below=1,
    )
    average_decay: float | None = setting(
        "of the moving average of the weights, 0 for none; default: the model's own",
        default=None,
        at_least=0,
        below=1,
    )
    clip_norm: float | None = setting(
        "largest norm of the gradient, 0 for any; default: the model's own",
        default=None,
        at_least=0,
    )
    micro_batches: int = setting(
        "parts in which each batch is computed, their gradients accumulated: saves memory",
        default=1,
        at_least=1,
    )
    mixed_precision: bool = setting(
        "compute in bfloat16 where the CPU or GPU has it, keep weights in float32",
        default=False,
    )
    jit: bool = setting("compile the step with XLA; slower for convolutions on CPUs", default=False)
    seed: int = setting("seed of weights, order and augmentation", default=0, at_least=0)
    strategy: str = setting("auto follows TF_CONFIG", default="auto", choices=STRATEGIES)
    cpu_devices: int = setting("mirrored without a GPU: logical CPU devices", default=1, at_least=1)
    checkpoint_every_steps: int = setting("steps between checkpoints", default=500, at_least=1)
    checkpoint_every_seconds: int | None = setting(
        "seconds between checkpoints, instead of steps", default=None, at_least=1
    )
    keep_checkpoints: int = setting(
        "latest checkpoints to keep; the best one is kept as well", default=3, at_least=1
    )
    best_metric: str = setting(
        "what the best checkpoint is best at, on the eval split",
        default="loss",
        choices=("loss", "accuracy", "auc"),
    )
    cache: str = setting(
        "where the examples of a split are: in memory, or streamed from the files in blocks that"
        " are shuffled one by one; auto: in memory if they take at most --cache-gb, decoded",
        default="auto",
        choices=("auto", "memory", "stream"),
    )
    cache_gb: float = setting(
        "memory for decoded examples; also what the size of streamed blocks follows from",
        default=4.0,
        above=0,
    )
    skip_corrupt: int = setting(
        "examples of a split that may be left out because their file is damaged",
        default=0,
        at_least=0,
    )
    patience: int | None = setting(
        "epochs without a better --best-metric after which training ends, and the best"
        " checkpoint is exported; default: train to the end, export the last",
        default=None,
        at_least=1,
    )
    steps_per_call: int = setting("steps in one call of the graph", default=50, at_least=1)
    profile_steps: str = setting(
        "FIRST-LAST, such as 101-150: a trace of these steps in logs/, for the profile plugin of"
        " TensorBoard; of the replica that writes the results, and of a chief's workers",
        default="",
    )
    histograms: bool = setting(
        "TensorBoard: show at the end of each epoch how the weights of each layer are spread",
        default=False,
    )
    log_every_steps: int = setting("steps between two measurements", default=100, at_least=1)
    start_timeout_seconds: int = setting(
        "how long replicas wait for one another to start", default=600, at_least=1
    )
    late_worker_seconds: int = setting(
        "parameter_server: how long the servers and one worker wait for the other workers; who is"
        " later joins the training",
        default=30,
        at_least=0,
    )
    replace_worker_seconds: int = setting(
        "parameter_server: how long a job without any worker waits for one",
        default=300,
        at_least=1,
    )
    stall_seconds: float = setting(
        "end a job in which for so long no step, evaluation or checkpoint has finished, after"
        " writing what each thread of each replica is at; started again, it goes on",
        default=600.0,
        above=0,
    )
    fresh: bool = setting("start over, deleting the folder's checkpoints", default=False)

    def __post_init__(self) -> None:
        for name, text in as_texts(vars(self)).items():
            object.__setattr__(self, name, text)
        for one in dataclasses.fields(self):
            check(one, getattr(self, one.name))
        if self.epochs is not None and self.steps is not None:
            raise ConfigError("--steps and --epochs cannot both be given; leave one out")
        if self.batch_size % self.micro_batches:
            raise ConfigError(
                f"--micro-batches: {self.micro_batches} parts of equal size cannot be made of"
                f" --batch-size {self.batch_size}"
            )
        self.steps_to_profile()
        self.recipe()
        self.chosen_workload()

    def chosen_workload(self) -> Workload:
        """Returns the workload with the model that the flags ask for."""
        return self.adapt(load_workload(self.workload))

    def recipe(self) -> Recipe:
        """Returns the model's recipe, changed as the flags say."""
        try:
            recipe = self.change(load_workload(self.workload).recipe(self.model))
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(f"--model: {error}") from error
        flags = {field.name: getattr(self, field.name, None) for field in fields(recipe)}
        given = {name: value for name, value in flags.items() if value is not None}
        if self.schedule != "one_cycle":
            given.setdefault("warmup", 0.0)
        return replace(recipe, **given)

    def steps_to_profile(self) -> range:
        """Returns the steps to trace, counted from 1; none by default."""
        if not self.profile_steps:
            return range(0)
        match = re.fullmatch(r"(\d{1,12})-(\d{1,12})", self.profile_steps, re.ASCII)
        first, last = map(int, match.groups()) if match else (0, 0)
        if not 1 <= first <= last:
            raise ConfigError(
                f"--profile-steps: {self.profile_steps!r} is not allowed; use FIRST-LAST, two whole"
                " numbers from 1 of which the second is not the smaller, such as 101-150"
            )
        return range(first, last + 1)

    def total_steps(self, num_examples: int) -> int:
        """Returns the steps of the whole job; the last epoch ends with a full batch."""
        if self.steps is not None:
            return self.steps
        return -(-(self.epochs or DEFAULT_EPOCHS) * num_examples // self.batch_size)


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Where a job writes."""

    model: str
    checkpoints: str
    logs: str


def resolve_folders(output_dir: str, environ: Mapping[str, str]) -> Folders:
    """Returns the three folders: below `output_dir`, or else those Vertex names by AIP_*."""
    if output_dir:
        root = paths.uri(output_dir).rstrip("/")
        return Folders(
            model=f"{root}/model", checkpoints=f"{root}/checkpoints", logs=f"{root}/logs"
        )
    names = ("AIP_MODEL_DIR", "AIP_CHECKPOINT_DIR", "AIP_TENSORBOARD_LOG_DIR")
    missing = [name for name in names if not environ.get(name)]
    if missing:
        raise ConfigError(f"--output-dir is not given and {', '.join(missing)} not set; give one")
    model, checkpoints, logs = (paths.uri(environ[name]).rstrip("/") for name in names)
    return Folders(model=model, checkpoints=checkpoints, logs=logs)


def parse_flags(argv: Sequence[str] | None = None) -> TrainConfig:
    """Returns the settings given on the command line; a wrong one ends the process with 2."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.task",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_flags(parser, TrainConfig)
    values = vars(parser.parse_args(argv))
    try:
        return TrainConfig(**values)
    except ConfigError as error:
        parser.error(str(error))
