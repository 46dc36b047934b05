"""Runs by reference: a built-in workload, a user's folder or file, a module, or an entry point."""

import importlib.metadata
from pathlib import Path

from pipelines.config.built_in import RUNS
from pipelines.config.run_config import RunConfig
from pipelines.projects.project import project_of
from pipelines.projects.run_file import with_run_file
from trainer.errors import ConfigError, did_you_mean
from trainer.references import FILE, is_module, valid_name, workload_name
from trainer.workloads.loading import ENTRY_POINTS

FORMS = f"{', '.join(RUNS)}, a folder with a {FILE}, a package.module"


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
        return with_run_file(config, project.run_file) if project.run_file else config
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
    hint = did_you_mean(reference, (*RUNS, *_entry_points()))
    more = "".join(f", {name}" for name in sorted(_entry_points()))
    return ConfigError(f"unknown workload {reference!r};{hint} allowed are {FORMS}{more}")


def _entry_points() -> list[str]:
    return [entry.name for entry in importlib.metadata.entry_points(group=ENTRY_POINTS)]
