"""Runs by reference (a built-in workload, a folder, a module or an entry point) and run.yaml."""

import importlib.metadata
from pathlib import Path
from typing import Any

from components.plan_training.cluster_file import parse_cluster
from components.plan_training.shape import ClusterSpec
from components.prepare_examples.settings.options import PREVIOUS
from components.shared.text.yaml_text import read_mapping, value_text
from pipelines.config.built_in import RUNS
from pipelines.config.cluster_files import cluster_error, read_cluster
from pipelines.config.run_config import RunConfig
from pipelines.config.settings import (
    GROUPS,
    MODEL_GROUP,
    checked,
    try_texts,
    with_setting_names,
)
from pipelines.errors import with_place
from pipelines.projects.project import project_of
from trainer import paths
from trainer.errors import ConfigError, did_you_mean
from trainer.references import FILE, is_module, valid_name, workload_name
from trainer.workloads.loading import ENTRY_POINTS

FORMS = f"{', '.join(RUNS)}, a folder with a {FILE}, a package.module"
CLUSTER = "cluster"
EXAMPLE = "train: {epochs: 5}"  # of a run.yaml
PATHS = ("files", "schema", "baseline")  # settings of `prepare`


def find_run(reference: str, *, folder: Path | None = None) -> RunConfig:
    """Return the configuration of a workload's runs; no code of the user is imported.

    The reference is a built-in name, a path (from `folder`, by default the current one), a
    dotted module, or an entry point.

    Raises:
        ConfigError: there is no such workload, or its run.yaml is wrong.
    """
    if reference in RUNS:
        return RUNS[reference]()
    if project := project_of(reference, folder=folder):
        config = default_run(str(project.path), name=project.name)
        run_file = project.run_file
        return checked(*try_run_file(config, run_file)) if run_file else config
    if not is_reference(reference):
        raise unknown_workload(reference)
    return default_run(reference, name=valid_name(workload_name(reference)))


def is_reference(reference: str, *, folder: Path | None = None) -> bool:
    """Return whether a text can be the reference of a workload; a path need not exist."""
    return (
        reference in RUNS
        or reference in _entry_points()
        or is_module(reference)
        or project_of(reference, folder=folder) is not None
    )


def default_run(reference: str, *, name: str) -> RunConfig:
    """Return the configuration of a workload without run.yaml: one machine, no thresholds."""
    return RunConfig(workload=reference, model_name=name, endpoint_name=name)


def unknown_workload(reference: str) -> ConfigError:
    """Return the error for a name that no workload has."""
    folders = (file.parent.name for file in Path().glob(f"*/{FILE}"))
    hint = did_you_mean(reference, (*RUNS, *_entry_points(), *folders))
    more = "".join(f", {name}" for name in sorted(_entry_points()))
    return ConfigError(f"unknown workload {reference!r};{hint} allowed are {FORMS}{more}")


def _entry_points() -> list[str]:
    return [entry.name for entry in importlib.metadata.entry_points(group=ENTRY_POINTS)]


def try_run_file(config: RunConfig, path: Path) -> tuple[RunConfig, list[ConfigError]]:
    """Return a run with the allowed settings of a run.yaml, and an error for each other one.

    It has the keys of --set, in groups, except that `cluster` may be the path of a cluster file
    or the content of one. Paths are relative to the file's folder.

    Raises:
        ConfigError: the file cannot be read.
    """
    values, sources = read_mapping(path, example=EXAMPLE)
    texts, errors = [], []
    for key, value in values.items():
        position = f"{path}, line {sources[key,].line}"
        if key == CLUSTER:
            try:
                config = config.replace(cluster=_cluster(value, path, position))
            except ConfigError as error:
                errors.append(error)
        elif key in (*GROUPS, MODEL_GROUP) and not isinstance(value, dict):
            errors.append(
                ConfigError(f"{position}: {key} is {value!r}; it must hold keys and values")
            )
        elif key in (*GROUPS, MODEL_GROUP):
            for name, setting in value.items():
                is_path = key == "prepare" and name in PATHS and setting != PREVIOUS
                resolved = _absolute(setting, path.parent) if is_path else setting
                source = sources[key, name]
                inner = f"{path}, line {source.line}"
                texts.append((inner, f"{key}.{name}", value_text(resolved, source)))
        else:
            texts.append((position, str(key), value_text(value, sources[key,])))
    config, wrong = try_texts(config, texts)
    return config, errors + wrong


def in_run_file(problem: str, config: RunConfig, path: Path | None) -> str:
    """Return a problem with settings for the trainer's flags, and the line of a run.yaml's setting.

    A problem has a line if it begins with a setting to which --set has given no other value.
    """
    text = with_setting_names(problem)
    values, sources = read_mapping(path, example=EXAMPLE) if path else ({}, {})
    places = {}
    for group, settings in values.items():
        of_run: Any = config.given().get("train" if group == MODEL_GROUP else group)
        for name, value in settings.items() if isinstance(of_run, dict) else ():
            key, item = f"{group}.{name}", ""
            if not _is_same(of_run.get(key if group == MODEL_GROUP else name), value):
                continue
            for number, listed in enumerate(value if isinstance(value, list) else ()):
                item = str(number) if text.startswith(f"{key} has {listed!r}") else item
            source = sources[(group, name, item) if item else (group, name)]
            places[key] = f"{path}, line {source.line}"
    return with_place(text, places)


def _is_same(value: Any, written: Any) -> bool:
    """Return whether a run has the value that a file says, which may write a list with commas."""
    texts = (value_text(value), ",".join(value) if isinstance(value, list) else value)
    return value == written or value_text(written).replace(", ", ",") in texts


def _cluster(value: Any, path: Path, position: str) -> ClusterSpec:
    if isinstance(value, str):
        return read_cluster(path.parent / value)
    try:
        return parse_cluster(value, path=path).spec
    except ConfigError as error:
        raise cluster_error(error, position=f"{position}: {CLUSTER}") from error


def _absolute(value: Any, folder: Path) -> Any:
    """Return a path, or each path of a list or of each split, below the folder of run.yaml.

    Absolute ones stay as they are.
    """
    if isinstance(value, dict):
        return {split: _absolute(item, folder) for split, item in value.items()}
    if isinstance(value, list):
        return [_absolute(item, folder) for item in value]
    if not isinstance(value, str) or not value or paths.is_bucket_uri(value):
        return value
    return str(folder / Path(value).expanduser()) + "/" * value.endswith("/")
