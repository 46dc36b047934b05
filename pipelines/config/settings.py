"""Settings by key, as `--set train.epochs=5` and the keys of a run.yaml."""

import contextlib
import dataclasses
import re
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from components.evaluate.gate.options import GateOptions
from components.evaluate.thresholds import DIRECTIONS, with_threshold
from components.plan_training.cluster_spec import ClusterSpec
from components.prepare_examples.settings.options import PrepareOptions
from components.release.options import ReleaseOptions, ServingOptions
from components.shared.text.yaml_text import NUMBER, load_yaml
from components.start.trigger import Trigger
from pipelines.config.built_in import metrics_of
from pipelines.config.run_config import JSON_GROUPS, PLANNED_FLAGS, RunConfig
from trainer.config.settings import SEE_SETTINGS
from trainer.config.train_config import TrainConfig
from trainer.errors import ConfigError, did_you_mean

GROUPS = ("cluster", *JSON_GROUPS, "labels")
# Keys of these groups may have any name.
FREE_GROUPS = ("labels", "model")
# Settings of the workload's own model travel among the trainer's: `model.units`.
MODEL_GROUP = "model"
_DECLARED: dict[str, type] = {
    "cluster": ClusterSpec,
    "train": TrainConfig,
    "gate": GateOptions,
    "prepare": PrepareOptions,
    "release": ReleaseOptions,
    "serving": ServingOptions,
    "trigger": Trigger,
}
# Fields without a key of their own; the fields of `prepare` are parameters of the pipeline.
_NOT_SET: dict[str, tuple[str, ...]] = {
    "": (*GROUPS, "workload"),
    "train": (*PLANNED_FLAGS, "model_settings"),
    "prepare": ("max_examples", "trust_files"),
}
# Settings that replace each other.
INSTEAD = {"train.steps": "train.epochs", "train.epochs": "train.steps"}
FLAG = re.compile(r"(?<!\w)--([a-z][a-z-]*(?:\.\w+)?)")
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
    return checked(*try_texts(config, values))


def checked(config: RunConfig, errors: Sequence[ConfigError]) -> RunConfig:
    """Return a run as `try_texts` returns it; raise its first error, if there are any."""
    if errors:
        raise errors[0]
    return config


def try_texts(
    config: RunConfig, texts: Sequence[tuple[str, str, str]]
) -> tuple[RunConfig, list[ConfigError]]:
    """Return the run with those settings that are allowed, and an error for each other one.

    The order of the settings has no effect: those that are allowed only together, such as a
    strategy and its number of workers, are checked together.

    Each has its place, for messages, its key and its value as text.
    """
    keys = {key for _, key, _ in texts}
    with contextlib.suppress(ValueError):
        return _with_together(config, texts, keys), []
    left = list(texts)
    while True:
        failed: dict[tuple[str, str, str], ValueError] = {}
        for text in left:
            try:
                config = _with_together(config, [text], keys)
            except ValueError as error:
                failed[text] = error
        if len(failed) == len(left):
            return _without_wrong(config, failed, keys)
        left = list(failed)


def _without_wrong(
    config: RunConfig, failed: Mapping[tuple[str, str, str], ValueError], keys: Collection[str]
) -> tuple[RunConfig, list[ConfigError]]:
    """Return the run with settings each of which fails alone, and the errors of the wrong ones.

    A setting is wrong if the others are allowed without it; all are if there is no such setting.
    """
    for wrong, error in failed.items():
        remaining = [text for text in failed if text != wrong]
        with contextlib.suppress(ValueError):
            return _with_together(config, remaining, keys), [_at_position(wrong[0], error)]
    return config, [_at_position(position, cause) for (position, _, _), cause in failed.items()]


def _at_position(position: str, cause: ValueError) -> ConfigError:
    error = ConfigError(f"{position}: {with_setting_names(str(cause))}")
    error.__cause__ = cause
    return error


def with_setting_names(error: str) -> str:
    """Return an error of the trainer with settings instead of its flags."""

    def setting(flag: re.Match[str]) -> str:
        name = flag[1].replace("-", "_")
        if name.startswith(f"{MODEL_GROUP}."):
            return flag[1]
        return f"train.{name}" if name in trainer_settings() else flag[0]

    return FLAG.sub(setting, error)


def declared_settings() -> dict[str, dataclasses.Field[Any]]:
    """Return the declared settings of a run by their keys, as `train.epochs`."""
    return {
        f"{group}.{field.name}".lstrip("."): field
        for group, kind in {"": RunConfig, **_DECLARED}.items()
        for field in dataclasses.fields(kind)
        if field.name not in _NOT_SET.get(group, ())
    }


def trainer_settings() -> list[str]:
    """Return the trainer's settings that a run may have."""
    return [key.removeprefix("train.") for key in declared_settings() if key.startswith("train.")]


def setting_keys(config: RunConfig) -> list[str]:
    """Return the keys that `--set` takes for this run."""
    metrics = metrics_of(config.workload) if config.is_built_in else ["METRIC"]
    thresholds = [f"thresholds.{metric}" for metric in metrics]
    return [*declared_settings(), *thresholds, "labels.NAME", "model.NAME"]


def _check_key(key: str, config: RunConfig) -> None:
    """Check the key of a setting; a label and a setting of the model may have any name.

    So may a metric of a user's workload, which is not loaded here: `pipelines.runs.workload_code`
    checks it.

    Raises:
        ConfigError: there is no such setting; names the nearest one.
    """
    if key in declared_settings():
        return
    allowed = setting_keys(config)
    group, _, name = key.partition(".")
    if group == "thresholds" and key.endswith(_DIRECTIONS):
        key = key.rpartition(".")[0]
    is_free = group in FREE_GROUPS or (group == "thresholds" and not config.is_built_in)
    if key not in allowed and not (is_free and name):
        named = [name for name in allowed if not name.endswith((".NAME", ".METRIC"))]
        hint = did_you_mean(key, named, separator=".")
        of_group = did_you_mean(key, (*GROUPS, MODEL_GROUP)) if "." not in key else ""
        if key in (*GROUPS, MODEL_GROUP):
            hint = f" it is a group of settings: write {key}.NAME;"
        elif of_group and did_you_mean(key, (*named, *GROUPS, MODEL_GROUP)) == of_group:
            hint = f"{of_group} It is a group of settings;"
        elif group == "thresholds":
            hint += f" metrics are {', '.join(metrics_of(config.workload))};"
        raise ConfigError(f"unknown key {key!r};{hint} {SEE_SETTINGS}")


def _type_of(key: str) -> Any:
    group = key.partition(".")[0]
    if group == "thresholds":
        return float
    if group in FREE_GROUPS:  # the workload reads the texts of its model's settings
        return str
    return declared_settings()[key].type


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


def read_value(text: str, kind: Any = None) -> Any:
    """Return the value of a text for a setting of type `kind`, or of any type if it is None.

    Numbers are read as in Python. For a text setting the text is returned unchanged, unless it is
    quoted, a list or an object; an empty one always. Everything else is YAML.

    Raises:
        YamlError: it is not YAML, or has aliases.
    """
    kinds = _members(kind)
    if {int, float} & kinds and re.fullmatch(NUMBER, text):
        number = float(text)
        is_whole = re.fullmatch("[-+]?[0-9]+", text) or (float not in kinds and number.is_integer())
        return int(number if "e" in text.lower() or "." in text else text) if is_whole else number
    is_null = type(None) in kinds and text in ("null", "~")
    is_text = str in kinds and not is_null and not text.lstrip().startswith(("'", '"', "[", "{"))
    return text if is_text or not text.strip() else load_yaml(text)


def _members(kind: Any) -> set[Any]:
    is_union = isinstance(kind, types.UnionType)
    return set(typing.get_args(kind)) if is_union else {kind}
