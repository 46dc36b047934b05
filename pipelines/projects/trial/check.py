"""The check of a user's workload: what needs none of its code here, the rest in a process."""

import dataclasses
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from components.prepare_examples.settings.patterns import without_dates
from pipelines.config.run_config import RunConfig
from pipelines.projects.project import Snapshot, copy_code, project_of
from pipelines.projects.requirements import check_requirements
from pipelines.projects.runs import default_run, find_run, in_run_file, try_run_file
from pipelines.projects.trial.findings import NOT_TRIED, TIMED_OUT, Finding
from pipelines.projects.trial.places import with_colons
from pipelines.projects.user_code import STACKS_SECONDS, running
from trainer import paths
from trainer.errors import ConfigError
from trainer.references import BUILT_IN

MODULE = "pipelines.projects.trial"
TIMEOUT_SECONDS = 120


def check(
    reference: str, *, data_root: str = "", timeout_seconds: float = TIMEOUT_SECONDS
) -> Iterator[Finding]:
    """Yield a finding for run.yaml, for requirements.txt, and for each part of Trial.

    `data_root` has a folder of downloaded data for each workload; `timeout_seconds` is for each
    part that runs the user's code.

    Raises:
        ConfigError: there is no such workload, or it is one of this repository.
    """
    if reference in BUILT_IN:
        raise ConfigError(f"{reference} is a workload of Trainyard itself; give one of your own")
    project = project_of(reference)
    if project is None:
        yield from _try_code(find_run(reference), None, data_root, timeout_seconds)
        return
    with tempfile.TemporaryDirectory(prefix="trainyard-check-") as folder:
        snapshot = Snapshot(Path(folder, project.name), project)
        for finding in _try_project(snapshot, data_root, timeout_seconds):
            yield _localized(finding, snapshot)


def _try_project(snapshot: Snapshot, data_root: str, timeout_seconds: float) -> Iterator[Finding]:
    project = snapshot.project
    config = default_run(str(project.path), name=project.name)
    if path := project.run_file:
        try:
            config, errors = try_run_file(config, path)
        except ConfigError as error:  # without its settings everything else would look wrong, too
            yield Finding.wrong(path.name, str(error))
            return
        right = Finding(name=path.name, detail=f"cluster {config.cluster.strategy}")
        yield Finding.wrong(path.name, *map(str, errors)) if errors else right
    if path := project.requirements:
        try:
            check_requirements(path)
            yield Finding(name=path.name, detail="all installed")
        except ConfigError as error:
            yield Finding.wrong(path.name, str(error))
    options = config.prepare_options()
    data = (*without_dates(options.files), options.schema_file, options.baseline)
    # As in a run, the code is a copy, which lacks what a run would leave out.
    copy_code(project, snapshot.folder, data=data)
    yield from _try_code(config, snapshot, data_root, timeout_seconds)


def _try_code(
    config: RunConfig, snapshot: Snapshot | None, data_root: str, timeout_seconds: float
) -> Iterator[Finding]:
    """Yield the findings of the process that runs the user's code, or the project's copy.

    The problems have the line of run.yaml of each setting that they name.
    """
    if remote := [file for file in config.prepare_options().files if paths.is_in_bucket(file)]:
        detail = f"{remote[0]} is in a bucket; name files of this machine to check them"
        yield Finding(name="data", state=NOT_TRIED, detail=detail)
        return
    run_file = snapshot.project.run_file if snapshot else None
    folder = str(snapshot.folder) if snapshot else ""
    last = "its start"
    # A file, since the names of thousands of files exceed the 128 KiB of an argument.
    with tempfile.NamedTemporaryFile("w", prefix="trainyard-check-", suffix=".json") as file:
        groups = ("train", "prepare", "thresholds", "gate")
        json.dump({name: config.given().get(name, {}) for name in groups}, file)
        file.flush()
        data_dir = [f"{data_root}/{config.name}"] if data_root else []
        with running([MODULE, folder or config.workload, file.name, *data_dir]) as trial:
            try:
                while line := trial.next_line(timeout_seconds):
                    finding = Finding(**json.loads(line))
                    last = finding.name
                    problems = (in_run_file(one, config, run_file) for one in finding.problems)
                    yield dataclasses.replace(finding, problems=tuple(problems))
                if code := trial.process.wait(STACKS_SECONDS):
                    end = f"the process ended with code {code}, after {last}: {trial.last_lines()}"
                    yield Finding.wrong("process", end)
            except (TimeoutError, subprocess.TimeoutExpired):
                position = trial.current_line(folder) or "the process"
                detail = (
                    f"{position} was still running {timeout_seconds:g} s after {last}; give it more"
                    " time with --timeout, or end the loop if it is one"
                )
                yield Finding(name="the rest", state=TIMED_OUT, detail=detail)


def _localized(finding: Finding, snapshot: Snapshot) -> Finding:
    """Return a finding with the user's files in place of copies, from the current folder."""
    parent = snapshot.project.path.parent
    above = os.path.relpath(parent)
    short = "" if above == "." else f"{parent if above.startswith('../..') else above}/"

    def local(text: str) -> str:
        return snapshot.in_users_words(with_colons(text)).replace(f"{parent}/", short)

    problems = tuple(map(local, finding.problems))
    return dataclasses.replace(finding, problems=problems, detail=local(finding.detail))
