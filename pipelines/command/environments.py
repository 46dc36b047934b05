"""Environments: `--env prod` gives a command the options of environments/prod.yaml."""

import argparse
import itertools
from pathlib import Path
from typing import Any

from components.shared.text.yaml_text import Sources, read_mapping, value_text
from trainer import paths
from trainer.errors import ConfigError, did_you_mean

FOLDER = "environments"
SETTINGS = "set"
# Keys of a file, which are options of commands; a command leaves out those that it does not have.
KEYS = (
    "on",
    "project",
    "location",
    "pipeline_root",
    "service_account",
    "image",
    "cluster",
    "data_dir",
    SETTINGS,
)
PATHS = ("cluster", "data_dir", "pipeline_root")  # relative to the file, unless in a bucket


def with_environment(argv: list[str], arguments: argparse.Namespace) -> list[str]:
    """Return a command with the options of its environment, which its own options override.

    Raises:
        ConfigError: there is no such environment, or its file has an unknown key.
    """
    path = _file_of(arguments)
    values, sources = read_mapping(path, example="project: my-project")
    options = []
    for key, value in values.items():
        line = f"{path}, line {sources[key,].line}"
        if key not in KEYS:
            raise ConfigError(
                f"{line}: {key!r} is unknown;{did_you_mean(key, KEYS)} keys: {', '.join(KEYS)}"
            )
        if key == SETTINGS:
            settings = _settings(value, sources, line)
            options += settings if hasattr(arguments, "settings") else []
        elif hasattr(arguments, key):
            text = value_text(value, sources[key,])
            is_path = key in PATHS and text and not paths.is_in_bucket(text)
            argument = str(path.parent / text) if is_path else text
            options.append(f"--{key.replace('_', '-')}={argument}")
    words = list(itertools.takewhile(lambda word: not word.startswith("-"), argv))
    return [*words, *options, *argv[len(words) :]]


def _file_of(arguments: argparse.Namespace) -> Path:
    """Return the file of an environment: of the workload's folder, or of the current one."""
    workload = vars(arguments).get("source") or vars(arguments).get("workload") or ""
    folders = list(dict.fromkeys([Path(workload), Path()]))
    files = [folder / FOLDER / f"{arguments.env}.yaml" for folder in folders]
    for file in files:
        if file.is_file():
            return file
    names = [path.stem for folder in folders for path in sorted((folder / FOLDER).glob("*.yaml"))]
    known = f"there are {', '.join(dict.fromkeys(names))}" if names else f"there is no {FOLDER}/"
    places = " and no ".join(map(str, files))
    raise ConfigError(f"--env: there is no {places};{did_you_mean(arguments.env, names)} {known}")


def _settings(values: Any, sources: Sources, line: str) -> list[str]:
    if not isinstance(values, dict):
        raise ConfigError(f"{line}: set is {values!r}; it must hold settings, as train.epochs: 5")
    return [
        f"--set={name}={value_text(value, sources[SETTINGS, name])}"
        for name, value in values.items()
    ]
