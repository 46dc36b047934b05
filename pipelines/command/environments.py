"""Environments: `--env prod` gives a command the options of environments/prod.yaml."""

import argparse
import itertools
import logging
from pathlib import Path
from typing import Any

from components.shared.text.yaml_text import read_mapping, value_text
from pipelines.command.target_options import TARGETS
from trainer import paths
from trainer.errors import ConfigError, did_you_mean

logger = logging.getLogger(__name__)

FOLDER = "environments"
SETTINGS = "set"
ACCOUNT = "service_account"  # of a run a setting
# Keys of a file, which are options of commands; a command leaves out those that it does not have.
KEYS = (
    "on",
    "project",
    "location",
    "pipeline_root",
    ACCOUNT,
    "image",
    "cluster",
    "data_dir",
    SETTINGS,
)
PATHS = ("cluster", "data_dir", "pipeline_root")  # relative to the file, unless in a bucket


def with_environment(
    argv: list[str], arguments: argparse.Namespace
) -> tuple[list[str], dict[str, str]]:
    """Return a command with the options of its environment, which its own options override.

    And the lines of the file by option or setting, except those that the command overrides.

    Raises:
        ConfigError: there is no such environment, or its file has a wrong key or value.
    """
    path = _file_of(arguments)
    values, sources = read_mapping(path, example="project: my-project")
    options: list[str] = []
    places: dict[str, str] = {}
    own_options = {word.partition("=")[0] for word in argv}
    own_settings = {text.partition("=")[0] for text in vars(arguments).get("settings", ())}
    for key, value in values.items():
        place = f"{path}, line {sources[key,].line}"
        _check(key, value, place)
        if key == ACCOUNT and value and hasattr(arguments, "settings"):
            text = f"{key}={value}"
            options.append(f"--set={text}")
            places[text] = place
            continue
        if key == SETTINGS and hasattr(arguments, "settings"):
            for name, setting in value.items():
                source = sources[SETTINGS, name]
                text = f"{name}={value_text(setting, source)}"
                options.append(f"--set={text}")
                if name not in own_settings:
                    places[text] = f"{path}, line {source.line}"
        elif key == SETTINGS and hasattr(arguments, "image"):
            logger.warning("%s: set is for runs; this command does not use it", place)
        elif key != SETTINGS and value is not None and hasattr(arguments, key):
            option, text = f"--{key.replace('_', '-')}", value_text(value, sources[key,])
            is_path = key in PATHS and not paths.is_in_bucket(text)
            options.append(f"{option}={path.parent / text if is_path else text}")
            if option not in own_options:
                places[option] = place
    words = list(itertools.takewhile(lambda word: not word.startswith("-"), argv))
    return [*words, *options, *argv[len(words) :]], places


def _check(key: str, value: Any, place: str) -> None:
    if key not in KEYS:
        hint = did_you_mean(key, KEYS)
        raise ConfigError(f"{place}: {key!r} is unknown;{hint} keys: {', '.join(KEYS)}")
    if key == SETTINGS and not isinstance(value, dict):
        raise ConfigError(f"{place}: set is {value!r}; it must hold settings, as train.epochs: 5")
    if key != SETTINGS and isinstance(value, dict | list):
        raise ConfigError(f"{place}: {key} is {value!r}; it must be a text")
    if key == "on" and value not in (None, *TARGETS):
        raise ConfigError(f"{place}: on is {value!r}; it must be {' or '.join(TARGETS)}")


def _file_of(arguments: argparse.Namespace) -> Path:
    """Return the file of an environment: of the workload's folder, or of the current one."""
    workload = vars(arguments).get("source") or vars(arguments).get("workload") or ""
    folders = list(dict.fromkeys([Path(workload), Path()]))
    files = [folder / FOLDER / f"{arguments.env}.yaml" for folder in folders]
    for file in files:
        if file.is_file():
            return file
    names = [path.stem for folder in folders for path in sorted((folder / FOLDER).glob("*.yaml"))]
    known = f"there are {', '.join(dict.fromkeys(names))}" if names else "none exists"
    places = " and no ".join(map(str, files))
    raise ConfigError(f"--env: there is no {places};{did_you_mean(arguments.env, names)} {known}")
