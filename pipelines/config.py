"""Configuration of a run: a function for each built-in workload, and its settings by key."""

import dataclasses
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.evaluate.thresholds import DIRECTIONS, read_limits, with_threshold
from components.json_object import parse_object
from components.plan_training.cluster_file import ClusterFile, load_cluster
from components.plan_training.cluster_spec import ClusterSpec
from components.prepare_examples.options import PrepareOptions
from pipelines.values import read_value
from pipelines.vertex_checks import check_labels
from trainer.config.settings import check_settings, find_setting, same_setting, setting
from trainer.config.train_config import TrainConfig
from trainer.errors import ClusterError, ConfigError
from trainer.json_types import Json
from trainer.serving.evaluate import metric_names
from trainer.suggest import did_you_mean
from trainer.workloads.loading import BUILT_IN, load_workload, valid_name, workload_name

logger = logging.getLogger(__name__)

GROUPS = ("cluster", "train", "thresholds", "prepare", "labels")
# Keys of these groups may have any name.
FREE_GROUPS = ("labels", "model")
# Settings of the workload's own model travel among those of the trainer: `model.units`.
MODEL_GROUP = "model"
# Also inside quotes in the filter of a request.
DISPLAY_NAME = {
    "pattern": r"""[^"\\\x00-\x1f\x7f]{1,128}""",
    "form": "at most 128 characters, without quotation marks and backslashes",
}
# The settings of PrepareOptions that are parameters of the pipeline, not keys of `prepare`.
RUN_PREPARE_SETTINGS = ("max_examples", "trust_files")
_DIRECTIONS = tuple(f".{direction}" for direction in DIRECTIONS)
# The trainer's settings that the pipeline sets.
PLANNED_FLAGS = ("workload", "examples_dir", "output_dir", "strategy")


class _UnloadedTrainConfig(TrainConfig):
    """Settings that are checked without the workload."""

    def check_workload(self) -> None:
        """Leave the workload unloaded."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Configuration of a run.

    `train` has settings of TrainConfig, `prepare` those of PrepareOptions. The settings from
    `service_account` to `tensorboard` have an effect on Vertex AI only.
    """

    workload: str = setting("workload to train")
    model_name: str = setting("name of the model in the registry", **DISPLAY_NAME)
    endpoint_name: str = setting("name of the endpoint that serves the model", **DISPLAY_NAME)
    cluster: ClusterSpec = field(default_factory=ClusterSpec)
    train: dict[str, Any] = setting("settings of the trainer", factory=dict)
    thresholds: dict[str, Any] = setting(
        "least metrics of a model to deploy, the largest where lower is better, or METRIC.at_least"
        " and METRIC.at_most",
        factory=dict,
    )
    prepare: dict[str, Any] = setting("settings of prepare_examples", factory=dict)
    serving_machine: str = setting("machine type of the endpoint", default="n1-standard-4")
    max_examples: int = same_setting(PrepareOptions, "max_examples")
    trust_files: bool = same_setting(PrepareOptions, "trust_files")
    keep_endpoint: bool = setting("keep the endpoint when the run ends", default=False)
    # https://cloud.google.com/vertex-ai/docs/reference/rest/v1/CustomJobSpec
    service_account: str = setting(
        "account of the run and its training job",
        default="",
        pattern=r"[a-z0-9][a-z0-9-]*@[a-z0-9.-]+\.gserviceaccount\.com",
        form="the account's e-mail address, as trainyard@my-project.iam.gserviceaccount.com",
    )
    network: str = setting(
        "network that the training job is peered with",
        default="",
        pattern=r"projects/\d+/global/networks/[a-z0-9-]+",
        form="projects/NUMBER/global/networks/NAME, with the project's number, not its id",
    )
    tensorboard: str = setting(
        "TensorBoard instance of the training job",
        default="",
        pattern=r"projects/[^/]+/locations/[^/]+/tensorboards/[^/]+",
        form="projects/PROJECT/locations/LOCATION/tensorboards/ID",
    )
    on_failure_url: str = setting(
        "webhook that is called when the run fails",
        default="",
        pattern=r"https?://[^\s/]+(/\S*)?",
        form="a web address, as https://HOST/PATH",
    )
    labels: dict[str, str] = setting("labels of the run and of all it creates", factory=dict)

    def __post_init__(self) -> None:
        check_settings(self)
        check_labels(self.labels)
        read_limits(self.thresholds)
        self.train_config()
        self.prepare_options()

    @property
    def name(self) -> str:
        """Return the workload's name: that of a folder without its path and digest."""
        return valid_name(workload_name(self.workload))

    @property
    def is_built_in(self) -> bool:
        """Return whether the workload is one of this repository."""
        return self.workload in BUILT_IN

    def prepare_options(self) -> PrepareOptions:
        """Return the settings of prepare_examples.

        Raises:
            ConfigError: a setting of `prepare` is not allowed.
        """
        return PrepareOptions.from_values(
            self.prepare, max_examples=self.max_examples, trust_files=self.trust_files
        )

    def train_config(self) -> TrainConfig:
        """Return the trainer's settings; the examples' folder is known only to the run itself.

        A user's workload is not loaded here: `pipelines.projects.description` checks what depends
        on it, in another process.

        Raises:
            ConfigError: a setting of `train` is not allowed.
        """
        kind = TrainConfig if self.is_built_in else _UnloadedTrainConfig
        planned = {"workload": self.workload, "examples_dir": "-"}
        return kind.from_settings({**planned, "strategy": self.cluster.strategy, **self.train})

    def parameters(self) -> Json:
        """Return the pipeline's parameters; structures as JSON, which kfp.local leaves unchanged.

        Raises:
            ConfigError: a setting needs another one.
        """
        if self.tensorboard and not self.service_account:
            raise ConfigError(
                "tensorboard needs service_account: Vertex AI writes to it as the job's account,"
                " which must have the roles Storage Admin and Vertex AI User"
            )
        parameters = {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "labels"
        }
        parameters["cluster"] = self.cluster.to_json()
        for name in ("train", "thresholds", "prepare"):
            parameters[name] = json.dumps(parameters[name], sort_keys=True)
        if not self.on_failure_url:  # packages compiled before it existed do not take it
            del parameters["on_failure_url"]
        return parameters

    @classmethod
    def from_parameters(cls, parameters: Json) -> "RunConfig":
        """Return the run that a package's parameters describe; other parameters are ignored.

        Raises:
            ValueError: a value is missing or not allowed; names the field.
        """
        names = {f.name for f in dataclasses.fields(cls)} - {"labels"}
        if missing := {"workload", "model_name", "endpoint_name"} - set(parameters):
            raise ConfigError(f"the package has no default for {', '.join(sorted(missing))}")
        known = {name: value for name, value in parameters.items() if name in names}
        for name in {"train", "thresholds", "prepare"} & set(known):
            known[name] = parse_object(known[name], name=name)
        if "cluster" in known:
            known["cluster"] = ClusterSpec.from_json(known["cluster"])
        if "max_examples" in known:
            known["max_examples"] = int(known["max_examples"])  # the compiler writes 0.0
        return cls(**known)


def mnist() -> RunConfig:
    """MNIST on a parameter-server cluster of four processes."""
    return RunConfig(
        workload="mnist",
        model_name="mnist",
        endpoint_name="mnist",
        cluster=ClusterSpec(strategy="parameter_server", workers=2, parameter_servers=1),
        train={"epochs": 3, "batch_size": 128},
        thresholds={"accuracy": 0.985},
    )


def cifar10() -> RunConfig:
    """CIFAR-10 on one machine; `make train-cifar10` draws its curve."""
    return RunConfig(
        workload="cifar10",
        model_name="cifar10",
        endpoint_name="cifar10",
        cluster=ClusterSpec(timeout_seconds=6 * 3600),
        train={"model": "fast", "epochs": 10, "batch_size": 256, "mixed_precision": True},
        thresholds={"accuracy": 0.91},
    )


def taxi() -> RunConfig:
    """Chicago taxi tips on one machine: a quarter of a minute."""
    return RunConfig(
        workload="taxi",
        model_name="taxi",
        endpoint_name="taxi",
        train={"epochs": 12, "batch_size": 128},
        thresholds={"auc": 0.94, "accuracy": 0.88},
    )


def metrics_of(workload: str) -> list[str]:
    """Return the metrics of a built-in workload, by its name."""
    return list(metric_names(load_workload(workload)))


RUNS: dict[str, Callable[[], RunConfig]] = {"mnist": mnist, "cifar10": cifar10, "taxi": taxi}


def read_cluster(path: Path) -> ClusterSpec:
    """Return the cluster of a file (configs/clusters) in any spelling, and log its warnings."""
    file = read_cluster_file(path)
    for warning in file.warnings:
        logger.warning("%s: %s", path, warning)
    return file.spec


def read_cluster_file(path: Path) -> ClusterFile:
    """Return a cluster file with its warnings.

    Raises:
        ConfigError: it cannot be read, or describes no cluster that can train; has all reasons.
    """
    try:
        return load_cluster(path)
    except OSError as error:
        raise ConfigError(f"cannot read the cluster file {path}: {error.strerror}") from error
    except ClusterError as error:
        raise cluster_error(error, place=str(path)) from error


def cluster_error(error: ClusterError, *, place: str) -> ConfigError:
    """Return the error for a cluster in a file, with all its mistakes."""
    if len(error.problems) == 1:
        return ConfigError(f"{place}: {error}")
    listed = "".join(f"\n  - {problem}" for problem in error.problems)
    return ConfigError(f"{place} has {len(error.problems)} mistakes:{listed}")


def with_settings(config: RunConfig, settings: list[str]) -> RunConfig:
    """Return the run with `KEY=VALUE` settings; a key in a group is written `train.epochs`.

    Raises:
        ConfigError: a key is unknown or a value is not allowed.
    """
    values = []
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text!r} has no value; write KEY=VALUE, as train.epochs=5")
        values.append((f"--set {text}", key, value))
    return with_texts(config, values)


def with_texts(config: RunConfig, texts: Sequence[tuple[str, str, str]]) -> RunConfig:
    """Return the run with settings, as `try_texts`.

    Raises:
        ConfigError: a key is unknown or a value is not allowed.
    """
    config, errors = try_texts(config, texts)
    if errors:
        raise errors[0]
    return config


def try_texts(
    config: RunConfig, texts: Sequence[tuple[str, str, str]]
) -> tuple[RunConfig, list[ConfigError]]:
    """Return the run with those settings that are allowed, and an error for each other one.

    A setting that is allowed only together with a later one, such as a momentum with its
    optimizer, is retried after it.

    Args:
        config: the run.
        texts: the place of each setting, for messages, its key and its value as text.
    """
    left = list(texts)
    while left:
        failed: list[tuple[tuple[str, str, str], ValueError]] = []
        for one in left:
            _, key, text = one
            try:
                _check_key(key, config)
                config = _with_setting(config, key, read_value(text, _type_of(key)))
            except ValueError as error:
                failed.append((one, error))
        if len(failed) == len(left):
            return config, [_at_place(place, cause) for (place, _, _), cause in failed]
        left = [one for one, _ in failed]
    return config, []


def _at_place(place: str, cause: ValueError) -> ConfigError:
    error = ConfigError(f"{place}: {cause}")
    error.__cause__ = cause
    return error


def trainer_flags() -> list[str]:
    """Return the trainer's settings that a run may have."""
    not_flags = (*PLANNED_FLAGS, "model_settings")  # those are `model.NAME`
    return [f.name for f in dataclasses.fields(TrainConfig) if f.name not in not_flags]


def _setting_keys(config: RunConfig) -> list[str]:
    """Return the keys that `--set` takes for this run."""
    plain = [f.name for f in dataclasses.fields(config) if f.name not in (*GROUPS, "workload")]
    groups: dict[str, Iterable[str]] = {
        "cluster": (f.name for f in dataclasses.fields(ClusterSpec)),
        "train": trainer_flags(),
        "thresholds": metrics_of(config.workload) if config.is_built_in else ["METRIC"],
        "prepare": (
            f.name for f in dataclasses.fields(PrepareOptions) if f.name not in RUN_PREPARE_SETTINGS
        ),
        "labels": ["NAME"],
        "model": ["NAME"],
    }
    return [*plain, *(f"{group}.{name}" for group, names in groups.items() for name in names)]


def _check_key(key: str, config: RunConfig) -> None:
    """Check the key of a setting; a label and a setting of the model may have any name.

    So may a metric of a user's workload, which is not loaded here: `pipelines.runs.workload_code`
    checks it.

    Raises:
        ConfigError: there is no such setting; lists all.
    """
    allowed = _setting_keys(config)
    group, _, name = key.partition(".")
    if group == "thresholds" and key.endswith(_DIRECTIONS):
        key = key.rpartition(".")[0]
    is_free = group in FREE_GROUPS or (group == "thresholds" and not config.is_built_in)
    if key not in allowed and not (is_free and name):
        hint = did_you_mean(key, allowed)
        raise ConfigError(f"unknown key {key!r};{hint} allowed are {', '.join(allowed)}")


def _type_of(key: str) -> Any:
    """Return the declared type of a setting."""
    group, _, name = key.partition(".") if "." in key else ("", "", key)
    if group == "thresholds":
        return float
    if group in FREE_GROUPS:  # the workload reads the texts of its model's settings
        return str
    declared = {"cluster": ClusterSpec, "train": TrainConfig, "prepare": PrepareOptions}
    return find_setting(declared.get(group, RunConfig), name).type


def _with_setting(config: RunConfig, key: str, value: Any) -> RunConfig:
    group, _, name = key.partition(".") if "." in key else ("", "", key)
    if group == MODEL_GROUP:
        group, name = "train", key
    if not group:
        return dataclasses.replace(config, **{name: value})
    if group == "cluster":
        cluster = dataclasses.replace(config.cluster, **{name: value})
        return dataclasses.replace(config, cluster=cluster)
    if group == "thresholds":
        changed: Any = with_threshold(config.thresholds, name, value)
        return dataclasses.replace(config, thresholds=changed)
    changed = {**getattr(config, group), name: value}
    return dataclasses.replace(config, **{group: changed})
