"""The configuration of a run: one function per named run, and settings from the command line."""

import dataclasses
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.plan_training.cluster_file import ClusterFile, load_cluster
from components.plan_training.cluster_spec import ClusterSpec
from components.plan_training.suggest import did_you_mean
from components.prepare_examples.options import PrepareOptions
from pipelines.values import read_value, type_of
from pipelines.vertex_checks import ConfigError as ConfigError  # noqa: PLC0414 - taken from here
from pipelines.vertex_checks import check_on_vertex, check_together
from trainer.config.train_config import TrainConfig
from trainer.errors import ClusterError

logger = logging.getLogger(__name__)

GROUPS = ("cluster", "train", "thresholds", "prepare", "labels")
APART = ("max_examples", "trust_files")  # of PrepareOptions, keys of the run itself


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything a run is told.

    `train` holds flags of `python -m trainer.task`, `prepare` fields of PrepareOptions. What is
    from `service_account` on matters on Vertex AI; `labels` are on the run and all that it makes.
    """

    workload: str
    model_name: str
    endpoint_name: str
    cluster: ClusterSpec = field(default_factory=ClusterSpec)
    train: dict[str, Any] = field(default_factory=dict)
    thresholds: dict[str, float] = field(default_factory=dict)
    prepare: dict[str, Any] = field(default_factory=dict)
    serving_machine: str = "n1-standard-4"
    max_examples: int = 0
    trust_files: bool = False
    keep_endpoint: bool = False
    service_account: str = ""
    network: str = ""
    tensorboard: str = ""
    on_failure_url: str = ""
    labels: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.thresholds.items():
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise ConfigError(f"thresholds.{name} is {value!r}; it must be a number")
        for name in ("model_name", "endpoint_name", "serving_machine"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be a text")
        if type(self.max_examples) is not int or self.max_examples < 0:
            raise ConfigError(
                f"max_examples is {self.max_examples!r}; it must be a whole number, 0 for all"
            )
        for name in ("trust_files", "keep_endpoint"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be true or false")
        self.train_config()
        self.prepare_options()
        check_on_vertex(self)

    def prepare_options(self) -> PrepareOptions:
        """The settings of prepare_examples.

        Raises:
            ValueError: a setting of `prepare` is not allowed; names the field.
        """
        return PrepareOptions.from_json(
            json.dumps(self.prepare), max_examples=self.max_examples, trust_files=self.trust_files
        )

    def train_config(self) -> TrainConfig:
        """The trainer's settings; the examples' folder is known only when the run goes on.

        Raises:
            ValueError: a setting of `train` is not allowed; names the flag.
        """
        return TrainConfig(
            workload=self.workload,
            examples_dir="-",
            strategy=self.cluster.strategy,
            **self.train,
        )

    def parameters(self) -> dict[str, Any]:
        """The pipeline's parameters; structures as JSON, which kfp.local does not mangle.

        Raises:
            ConfigError: a setting needs another; names both.
        """
        check_together(self)
        return {
            "workload": self.workload,
            "cluster": self.cluster.to_json(),
            "train": json.dumps(self.train, sort_keys=True),
            "thresholds": json.dumps(self.thresholds, sort_keys=True),
            "prepare": json.dumps(self.prepare, sort_keys=True),
            "model_name": self.model_name,
            "endpoint_name": self.endpoint_name,
            "serving_machine": self.serving_machine,
            "max_examples": self.max_examples,
            "trust_files": self.trust_files,
            "keep_endpoint": self.keep_endpoint,
            "service_account": self.service_account,
            "network": self.network,
            "tensorboard": self.tensorboard,
            # Left out if it is empty: packages compiled before it was there do not take it.
            **({"on_failure_url": self.on_failure_url} if self.on_failure_url else {}),
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> "RunConfig":
        """The run that a package's parameters describe, by `parameters()`; others are left out.

        Raises:
            ValueError: a value is missing or not allowed; names the field.
        """
        names = {f.name for f in dataclasses.fields(cls)} - {"labels"}
        if missing := {"workload", "model_name", "endpoint_name"} - set(parameters):
            raise ConfigError(f"the package has no default for {', '.join(sorted(missing))}")
        known = {name: value for name, value in parameters.items() if name in names}
        for name in {"train", "thresholds", "prepare"} & set(known):
            known[name] = json.loads(known[name])
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


RUNS: dict[str, Callable[[], RunConfig]] = {"mnist": mnist, "cifar10": cifar10, "taxi": taxi}


def named_run(name: str) -> RunConfig:
    """The configuration of a named run.

    Raises:
        ConfigError: no run has that name; says which there are.
    """
    if name not in RUNS:
        hint = did_you_mean(name, RUNS)
        raise ConfigError(f"unknown workload {name!r};{hint} there are {', '.join(RUNS)}")
    return RUNS[name]()


def read_cluster(path: Path) -> ClusterSpec:
    """Reads a cluster file (configs/clusters) in any spelling; logs what to know of it."""
    file = read_cluster_file(path)
    for warning in file.warnings:
        logger.warning("%s: %s", path, warning)
    return file.spec


def read_cluster_file(path: Path) -> ClusterFile:
    """Reads a cluster file with its warnings.

    Raises:
        ConfigError: it cannot be read or used; says all reasons.
    """
    try:
        return load_cluster(path)
    except OSError as error:
        raise ConfigError(f"cannot read the cluster file {path}: {error.strerror}") from error
    except ClusterError as error:
        if len(error.problems) == 1:
            raise ConfigError(f"{path}: {error}") from error
        listed = "".join(f"\n  - {problem}" for problem in error.problems)
        raise ConfigError(f"{path} has {len(error.problems)} mistakes:{listed}") from error


def with_settings(config: RunConfig, settings: list[str]) -> RunConfig:
    """Applies `KEY=VALUE` settings in order; a key in a group is written `train.epochs`.

    One that is allowed only together with a later one, as a momentum with its optimizer, waits.
    """
    while settings:
        failed: dict[str, Exception] = {}
        for setting in settings:
            key, equals, value = setting.partition("=")
            if not equals:
                raise ConfigError(
                    f"--set {setting!r} has no value; write KEY=VALUE, as train.epochs=5"
                )
            try:
                check_key(key, setting_keys(config))
                config = _with_setting(config, key, read_value(value, _type_of(key)))
            except ValueError as error:
                failed[setting] = error
        if len(failed) == len(set(settings)):
            setting, cause = next(iter(failed.items()))
            raise ConfigError(f"--set {setting}: {cause}") from cause
        settings = list(failed)
    return config


def setting_keys(config: RunConfig) -> list[str]:
    """The keys that `--set` takes for this run."""
    plain = [f.name for f in dataclasses.fields(config) if f.name not in (*GROUPS, "workload")]
    cluster = [f"cluster.{f.name}" for f in dataclasses.fields(ClusterSpec)]
    train = [f"train.{flag}" for flag in trainer_flags()]
    prepare = [f.name for f in dataclasses.fields(PrepareOptions) if f.name not in APART]
    thresholds = [f"thresholds.{name}" for name in config.thresholds]
    return [
        *plain,
        *cluster,
        *train,
        *thresholds,
        *(f"prepare.{name}" for name in prepare),
        "labels.NAME",
    ]


def trainer_flags() -> list[str]:
    """The trainer's flags that a run may set: all but those that the pipeline sets."""
    planned = {"workload", "examples_dir", "output_dir", "strategy"}
    return [f.name for f in dataclasses.fields(TrainConfig) if f.name not in planned]


def check_key(key: str, allowed: list[str]) -> None:
    """Check the key of a setting; that of a label is free.

    Raises:
        ConfigError: it is unknown; says which may be meant, and which there are.
    """
    if key not in allowed and not key.startswith("labels."):
        hint = did_you_mean(key, allowed)
        raise ConfigError(f"unknown key {key!r};{hint} allowed are {', '.join(allowed)}")


def _type_of(key: str) -> Any:
    """Return the declared type of a setting."""
    group, _, name = key.rpartition(".")
    if group in ("thresholds", "labels"):
        return float if group == "thresholds" else str
    holders = {"": RunConfig, "cluster": ClusterSpec, "train": TrainConfig}
    return type_of(holders.get(group, PrepareOptions), name)


def _with_setting(config: RunConfig, key: str, value: Any) -> RunConfig:
    group, _, name = key.rpartition(".")
    if not group:
        return dataclasses.replace(config, **{name: value})
    if group == "cluster":
        cluster = dataclasses.replace(config.cluster, **{name: value})
        return dataclasses.replace(config, cluster=cluster)
    changed: Any = {**getattr(config, group), name: value}
    return dataclasses.replace(config, **{group: changed})
