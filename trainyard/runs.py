"""Check, run and submit a workload from Python: thin calls of what the commands call."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from components.run_result.summary import Summary, summarize
from pipelines import cli
from pipelines.command.target_options import api_of, target_of
from pipelines.exit_codes import GATED, OK
from pipelines.places.target import default_state_dir, local_target
from pipelines.projects.trial import check as trial
from pipelines.projects.trial.findings import Finding
from pipelines.resources.kinds import RUN
from pipelines.runs.output.tables import shown
from pipelines.runs.reports import report_run
from pipelines.serving.batch import find_version
from trainer.errors import ConfigError, TrainerError, did_you_mean
from trainyard import resolution


class RunError(TrainerError):
    """A run that failed or was cancelled."""


@dataclass(frozen=True)
class Run:
    """A pipeline run, on Vertex AI or this machine.

    Attributes:
        name: its name, as `trainyard runs list` shows it.
    """

    name: str
    _arguments: argparse.Namespace

    @property
    def summary(self) -> Summary:
        """State, outcome, metrics, settings and tasks, as they are now."""
        with api_of(self._arguments) as api:
            return summarize(RUN.get(api, self.name))

    @property
    def report(self) -> Path:
        """The file of the report, report.html, written now."""
        with api_of(self._arguments) as api:
            return report_run(api, self.name, target=target_of(self._arguments, needs_bucket=False))

    @property
    def model_version(self) -> str:
        """The promoted version, `MODEL@VERSION`; "" if the run has promoted none."""
        return self.summary.model_version

    def predict(self, rows: Sequence[Any]) -> list[Any]:
        """Return the promoted model's prediction for each row, computed in this process.

        Args:
            rows: instances of the prediction server: dicts of a table's columns, for example.

        Raises:
            RunError: the run has promoted no model.
            InstanceError: a row is not allowed; the message has its index.
        """
        predictions: list[Any] = self._predictor.predict(list(rows))
        return predictions

    @cached_property
    def _predictor(self) -> Any:
        version = self.model_version
        if not version:
            raise RunError(f"{self.name} has promoted no model: {self.summary.headline}")
        with api_of(self._arguments) as api:
            _, uri, _ = find_version(api, version)
        from trainer.runtime.tensorflow_logs import import_tensorflow

        import_tensorflow()
        from trainer.config.trust import OWN
        from trainer.serving.export import load_predictor

        return load_predictor(uri, trust=OWN)


def check(workload: str, *, timeout_seconds: float = trial.TIMEOUT_SECONDS) -> list[Finding]:
    """Return what `trainyard check` finds: for each thing tried its `state` and `problems`.

    Args:
        workload: a folder with a workload.py, or a package.module.
        timeout_seconds: for each part of the user's code.
    """
    data_root = local_target(default_state_dir()).data_root
    with resolution.for_children():
        return list(trial.check(workload, data_root=data_root, timeout_seconds=timeout_seconds))


def run(
    workload: str,
    *,
    set: Mapping[str, Any] | None = None,
    cluster: str | Path | None = None,
    **options: Any,
) -> Run:
    """Run a workload's pipeline, wait for its end and tear it down: `trainyard run`.

    Args:
        workload: a built-in name, a folder with a workload.py, or a package.module.
        set: settings by key, as `{"train.epochs": 5}`.
        cluster: a cluster file.
        options: the other options of `trainyard run`, as `on="vertex"`, `project="P"`.

    Returns:
        The run; one whose model did not pass the gate has no `model_version`.

    Raises:
        ConfigError: a setting or an option is not allowed.
        RunError: the run failed or was cancelled.
    """
    return _start("run", workload, set or {}, cluster, options)


def submit(
    source: str,
    *,
    set: Mapping[str, Any] | None = None,
    cluster: str | Path | None = None,
    **options: Any,
) -> Run:
    """Start a pipeline run without waiting for its end: `trainyard submit`.

    Args:
        source: a workload as of `run`, or a compiled package.
        set: settings by key, as of `run`.
        cluster: a cluster file.
        options: the other options of `trainyard submit`.

    Raises:
        ConfigError: a setting or an option is not allowed.
    """
    return _start("submit", source, set or {}, cluster, options)


def _start(
    command: str,
    source: str,
    settings: Mapping[str, Any],
    cluster: str | Path | None,
    options: Mapping[str, Any],
) -> Run:
    arguments = cli.parse([command, source])
    arguments.settings = [f"{key}={shown(value)}" for key, value in settings.items()]
    arguments.cluster = Path(cluster) if cluster else None
    for name, value in options.items():
        if name not in arguments:
            hint = did_you_mean(name, vars(arguments))
            raise ConfigError(f"{command}() has no option {name!r};{hint} see docs/python.md")
        setattr(arguments, name, Path(value) if name == "state_dir" else value)
    with resolution.for_children():
        code = arguments.command(arguments)
    result = Run(arguments.name, arguments)
    if code not in (OK, GATED):
        raise RunError(result.summary.headline)
    return result
