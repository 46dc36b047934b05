"""Settings by key, as `--set train.epochs=5` and the keys of a run.yaml."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from components.evaluate.gate.options import GateOptions
from components.evaluate.thresholds import DIRECTIONS, with_threshold
from components.new_data.trigger import Trigger
from components.plan_training.cluster_spec import ClusterSpec
from components.prepare_examples.settings.options import PrepareOptions
from components.release.options import ReleaseOptions
from pipelines.config.built_in import metrics_of
from pipelines.config.run_config import PLANNED_FLAGS, RunConfig
from pipelines.config.values import read_value
from trainer.config.settings import find_setting
from trainer.config.train_config import TrainConfig
from trainer.errors import ConfigError, did_you_mean

GROUPS = ("cluster", "train", "thresholds", "gate", "prepare", "trigger", "release", "labels")
# Keys of these groups may have any name.
FREE_GROUPS = ("labels", "model")
# Settings of the workload's own model travel among those of the trainer: `model.units`.
MODEL_GROUP = "model"
# The settings of PrepareOptions that are parameters of the pipeline, not keys of `prepare`.
RUN_PREPARE_SETTINGS = ("max_examples", "trust_files")
# Settings that replace each other.
INSTEAD = {"train.steps": "train.epochs", "train.epochs": "train.steps"}
_DIRECTIONS = tuple(f".{direction}" for direction in DIRECTIONS)


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

    The order of the settings has no effect: those that are allowed only together, such as a
    strategy and its number of workers, are checked together.

    Args:
        config: the run.
        texts: the place of each setting, for messages, its key and its value as text.
    """
    keys = {key for _, key, _ in texts}
    left = list(texts)
    while left:
        failed: dict[tuple[str, str, str], ValueError] = {}
        for text in left:
            try:
                config = _with_together(config, [text], keys)
            except ValueError as error:
                failed[text] = error
        if len(failed) == len(left):
            return _try_together(config, failed, keys)
        left = list(failed)
    return config, []


def _try_together(
    config: RunConfig, failed: Mapping[tuple[str, str, str], ValueError], keys: Collection[str]
) -> tuple[RunConfig, list[ConfigError]]:
    """Return the run with settings each of which fails alone, and the errors of the wrong ones.

    A setting is wrong if the others are allowed without it; all are if there is no such setting.
    """
    for skipped in (None, *failed):
        try:
            changed = _with_together(config, [text for text in failed if text != skipped], keys)
        except ValueError:
            continue
        return changed, [_at_place(skipped[0], failed[skipped])] if skipped else []
    return config, [_at_place(place, cause) for (place, _, _), cause in failed.items()]


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
        "gate": (f.name for f in dataclasses.fields(GateOptions)),
        "prepare": (
            f.name for f in dataclasses.fields(PrepareOptions) if f.name not in RUN_PREPARE_SETTINGS
        ),
        "release": (f.name for f in dataclasses.fields(ReleaseOptions)),
        "trigger": (f.name for f in dataclasses.fields(Trigger)),
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
    declared = {
        "cluster": ClusterSpec,
        "train": TrainConfig,
        "gate": GateOptions,
        "prepare": PrepareOptions,
        "release": ReleaseOptions,
        "trigger": Trigger,
    }
    return find_setting(declared.get(group, RunConfig), name).type


def _with_together(
    config: RunConfig, texts: Iterable[tuple[str, str, str]], keys: Collection[str]
) -> RunConfig:
    """Return the run with settings that are checked once all are set.

    Steps replace epochs, and epochs steps, unless both are among the `keys` of the user.
    """
    cluster: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for _, key, text in texts:
        _check_key(key, config)
        value = read_value(text, _type_of(key))
        group, _, name = key.partition(".") if "." in key else ("", "", key)
        if group == MODEL_GROUP:
            group, name = "train", key
        if not group:
            changes[name] = value
        elif group == "cluster":
            cluster[name] = value
        else:
            values = changes.get(group, getattr(config, group))
            replaced = INSTEAD.get(key, "")
            if replaced not in keys:
                values = {other: v for other, v in values.items() if f"{group}.{other}" != replaced}
            is_threshold = group == "thresholds"
            changes[group] = (
                with_threshold(values, name, value) if is_threshold else {**values, name: value}
            )
    changes["cluster"] = dataclasses.replace(config.cluster, **cluster)
    return dataclasses.replace(config, **changes)
