"""Settings by key, as `--set train.epochs=5` and the keys of a run.yaml."""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from components.evaluate.thresholds import DIRECTIONS, with_threshold
from components.shared.text.yaml_text import NUMBER, load_yaml
from pipelines.config.built_in import metrics_of
from pipelines.config.run_config import RunConfig
from trainer import Json
from trainer.config.settings import SEE_SETTINGS, Settings, SettingsError, schema_at
from trainer.errors import ConfigError, did_you_mean

# Settings of the workload's own model travel among the trainer's: `model.units`.
MODEL_GROUP = "model"
# Groups whose keys may have any name.
FREE_GROUPS = ("labels", MODEL_GROUP)
THRESHOLDS = "thresholds"
# Settings that replace each other.
INSTEAD = {"train.steps": "train.epochs", "train.epochs": "train.steps"}
FLAG = re.compile(r"(?<!\w)--([a-z][a-z-]*(?:\.\w+)?)")
_DIRECTIONS = tuple(f".{direction}" for direction in DIRECTIONS)
# Fields without a key of their own.
_NOT_SET = ("workload", "model_settings")
# A setting as it is written: its place, for messages, its key and its value.
Text = tuple[str, str, str]


def with_settings(config: RunConfig, settings: list[str]) -> RunConfig:
    """Return the run with `KEY=VALUE` settings; a key in a group is written `train.epochs`.

    Raises:
        ConfigError: keys are unknown or values not allowed.
    """
    values = []
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text!r} has no value; write KEY=VALUE, as train.epochs=5")
        values.append((f"--set {text}", key, value))
    return checked(*try_texts(config, values))


def checked(config: RunConfig, errors: Sequence[ConfigError]) -> RunConfig:
    """Return a run as `try_texts` returns it; raise its errors as one, if there are any."""
    if errors:
        raise ConfigError(*map(str, errors))
    return config


def try_texts(config: RunConfig, texts: Sequence[Text]) -> tuple[RunConfig, list[ConfigError]]:
    """Return the run with those settings that are allowed, and an error for each other one.

    The order of the settings has no effect: all are checked together, such as a strategy and its
    number of workers.
    """
    problems: dict[Text, list[str]] = {}
    values: dict[Text, Any] = {}
    for text in texts:
        try:
            values[text] = _read(text, config)
        except ValueError as error:
            problems[text] = [str(error)]
    while True:
        try:
            config = _merged(config, values)
            break
        except SettingsError as error:
            for key, problem in zip(error.keys, error.problems, strict=True):
                for text in _texts_of(key, problem, config, values):
                    problems.setdefault(text, []).append(problem)
            values = {text: value for text, value in values.items() if text not in problems}
    return config, [
        ConfigError(f"{text[0]}: {with_setting_names(problem)}")
        for text in texts
        for problem in problems.pop(text, ())
    ]


def _texts_of(key: str, problem: str, config: RunConfig, values: Mapping[Text, Any]) -> list[Text]:
    """Return the settings that are to blame for a problem of a key, or of a group.

    Of a group it is a setting without which the problem is gone; all are if there is none.
    """
    if exact := {text[1]: text for text in values if f"{key}.".startswith(f"{_path(text[1])}.")}:
        return list(exact.values())  # of several with this key the last, whose value it has
    within = [text for text in values if _path(text[1]).startswith(f"{key}." if key else "")]
    for text in within:
        others = {other: value for other, value in values.items() if other != text}
        try:
            _merged(config, others)
        except SettingsError as error:
            if problem in error.problems:
                continue
        return [text]
    return within or list(values)


def _path(key: str) -> str:
    """Return the place of a setting in the configuration, for `model.units` that of the train."""
    return f"train.{key}" if key.startswith(f"{MODEL_GROUP}.") else key


def with_setting_names(error: str) -> str:
    """Return an error of the trainer with settings instead of its flags."""

    def setting(flag: re.Match[str]) -> str:
        name = flag[1].replace("-", "_")
        if name.startswith(f"{MODEL_GROUP}."):
            return flag[1]
        return f"train.{name}" if f"train.{name}" in declared_settings() else flag[0]

    return FLAG.sub(setting, error)


@functools.cache
def declared_settings() -> dict[str, Json]:
    """Return the schemas of the declared settings of a run by their keys, as `train.epochs`."""
    keys: list[tuple[str, ...]] = []
    for name, field in RunConfig.model_fields.items():
        if isinstance(field.default, Settings):
            inner = schema_at(RunConfig, [name])["properties"]
            keys += [(name, key) for key in inner if key not in _NOT_SET]
        elif name not in (*_NOT_SET, THRESHOLDS, "labels"):
            keys.append((name,))
    return {".".join(key): schema_at(RunConfig, key) for key in keys}


GROUPS = (
    *(
        name
        for name, field in RunConfig.model_fields.items()
        if isinstance(field.default, Settings)
    ),
    THRESHOLDS,
    "labels",
)


def setting_keys(config: RunConfig) -> list[str]:
    """Return the keys that `--set` takes for this run."""
    metrics = metrics_of(config.workload) if config.is_built_in else ["METRIC"]
    thresholds = [f"{THRESHOLDS}.{metric}" for metric in metrics]
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


def _read(text: Text, config: RunConfig) -> Any:
    """Return the value of a setting; ConfigError if there is no such setting."""
    _, key, value = text
    _check_key(key, config)
    group = key.partition(".")[0]
    if group in FREE_GROUPS:  # the workload reads the texts of its model's settings
        return read_value(value, {"type": "string"})
    return read_value(
        value, {"type": "number"} if group == THRESHOLDS else declared_settings()[key]
    )


def _merged(config: RunConfig, values: Mapping[Text, Any]) -> RunConfig:
    """Return the run with settings, checked once all are set.

    Steps replace epochs, and epochs steps, unless both are among the settings.
    """
    changed = config.given()
    keys = [key for _, key, _ in values]
    for (_, key, _), value in values.items():
        group, _, name = _path(key).partition(".")
        if not name:
            changed[group] = value
            continue
        settings = changed.setdefault(group, {})
        if group == THRESHOLDS:
            changed[group] = with_threshold(settings, name, value)
            continue
        if (other := INSTEAD.get(key, key)) not in keys:
            settings.pop(other.partition(".")[2], None)
        if key == "prepare.files" and settings.get("split", {}).get("by") == "files":
            settings.pop("split")  # of other files
        settings[name] = value
    return RunConfig(**changed)


def read_value(text: str, schema: Json) -> Any:
    """Return the value of a text for a setting with this schema, or {} for any value.

    Numbers are read as in Python. For a text setting the text is returned unchanged, unless it is
    quoted, a list or an object; an empty one always. Everything else is YAML.

    Raises:
        YamlError: it is not YAML, or has aliases.
    """
    kind = schema.get("type")
    if kind in ("integer", "number") and re.fullmatch(NUMBER, text):
        number = float(text)
        is_whole = re.fullmatch("[-+]?[0-9]+", text) or (kind == "integer" and number.is_integer())
        return int(number if "e" in text.lower() or "." in text else text) if is_whole else number
    is_null = schema.get("default", "") is None and text in ("null", "~")
    is_quoted = text.lstrip().startswith(("'", '"', "[", "{"))
    is_text = kind == "string" and not is_null and not is_quoted
    return text if is_text or not text.strip() else load_yaml(text)
