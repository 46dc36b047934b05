"""The check of a user's workload: what needs none of its code here, the rest in a process."""

import contextlib
import dataclasses
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from components.prepare_examples.settings.patterns import without_dates
from pipelines.config.run_config import RunConfig
from pipelines.projects.project import Project, Snapshot, copy_code, project_of
from pipelines.projects.requirements import check_requirements
from pipelines.projects.runs import default_run, find_run, in_run_file, try_run_file
from pipelines.projects.trial.findings import NOT_TRIED, OK, TIMED_OUT, WRONG, Finding
from pipelines.projects.trial.places import with_colons
from pipelines.projects.user_code import STACKS_SECONDS, UserProcess, running
from trainer import paths
from trainer.errors import ConfigError
from trainer.references import BUILT_IN, FILE

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
        config = find_run(reference)
        yield from _try_code(config, None, data_root, timeout_seconds)
        return
    config = default_run(str(project.path), name=project.name)
    if project.run_file:
        read, finding = _check_run_file(config, project)
        yield _localized(finding, project)
        if read is None:  # without its settings everything else would look wrong, too
            return
        config = read
    if project.requirements:
        yield _localized(_check_requirements(project.requirements), project)
    with tempfile.TemporaryDirectory(prefix="trainyard-check-") as folder:
        options = config.prepare_options()
        data = (*without_dates(options.files), options.schema, options.baseline)
        # As in a run, the code is a copy, which lacks what a run would leave out.
        copied = Path(folder, project.name)
        copy_code(project, copied, data=data)
        snapshot = Snapshot(copied, project)
        for finding in _try_code(config, snapshot, data_root, timeout_seconds):
            yield _localized(finding, project, snapshot)


def _check_run_file(config: RunConfig, project: Project) -> tuple[RunConfig | None, Finding]:
    path = project.run_file
    assert path is not None
    try:
        config, errors = try_run_file(config, path)
    except ConfigError as error:
        return None, Finding(name=path.name, state=WRONG, problems=(str(error),))
    problems = tuple(map(str, errors))
    detail = "" if problems else f"cluster {config.cluster.strategy}"
    state = WRONG if problems else OK
    return config, Finding(name=path.name, state=state, detail=detail, problems=problems)


def _check_requirements(path: Path) -> Finding:
    try:
        check_requirements(path)
    except ConfigError as error:
        return Finding(name=path.name, state=WRONG, problems=(str(error),))
    return Finding(name=path.name, detail="all installed")


def _try_code(
    config: RunConfig, snapshot: Snapshot | None, data_root: str, timeout_seconds: float
) -> Iterator[Finding]:
    """Yield the findings of the process that runs the user's code, or the project's copy."""
    if remote := [file for file in config.prepare_options().files if paths.is_in_bucket(file)]:
        detail = f"{remote[0]} is in a bucket; name files of this machine to check them"
        yield Finding(name="data", state=NOT_TRIED, detail=detail)
        return
    last = "its start"
    with _running_trial(config, snapshot, data_root) as trial:
        try:
            while line := trial.next_line(timeout_seconds):
                finding = Finding.from_json(json.loads(line))
                last = finding.name
                yield _with_place_in_run_file(finding, config, snapshot)
            if code := trial.process.wait(STACKS_SECONDS):
                problem = f"the process ended with code {code}, after {last}: {trial.last_lines()}"
                yield Finding(name="process", state=WRONG, problems=(problem,))
        except (TimeoutError, subprocess.TimeoutExpired):
            position = trial.current_line(str(snapshot.folder) if snapshot else "") or "the process"
            detail = (
                f"{position} was still running {timeout_seconds:g} s after {last}; give it more"
                " time with --timeout, or end the loop if it is one"
            )
            yield Finding(name="the rest", state=TIMED_OUT, detail=detail)


@contextlib.contextmanager
def _running_trial(
    config: RunConfig, snapshot: Snapshot | None, data_root: str
) -> Iterator[UserProcess]:
    # A file, since the names of thousands of files exceed the 128 KiB of an argument.
    with tempfile.NamedTemporaryFile("w", prefix="trainyard-check-", suffix=".json") as file:
        groups = ("train", "prepare", "thresholds", "gate")
        json.dump({name: getattr(config, name) for name in groups}, file)
        file.flush()
        command = [MODULE, str(snapshot.folder) if snapshot else config.workload, file.name]
        if data_root:
            command += ["--data-dir", f"{data_root}/{config.name}"]
        with running(command) as trial:
            yield trial


def _with_place_in_run_file(
    finding: Finding, config: RunConfig, snapshot: Snapshot | None
) -> Finding:
    """Return the finding with the line of run.yaml of each setting or other entry that it names."""
    path = snapshot.project.run_file if snapshot else None
    problems = tuple(in_run_file(problem, config, path) for problem in finding.problems)
    return dataclasses.replace(finding, problems=problems)


def _localized(finding: Finding, project: Project, snapshot: Snapshot | None = None) -> Finding:

    def local(problem: str) -> str:
        text = with_colons(problem)
        if snapshot:
            copied = str(snapshot.folder / FILE) if project.is_file else str(snapshot.folder)
            text = text.replace(copied, str(project.path))
        above = str(project.path.parent)
        folder = os.path.relpath(above)
        short = "" if folder == "." else f"{folder}/"
        return text.replace(f"{above}/", short) if not short.startswith("../..") else text

    detail = local(finding.detail) if finding.state == TIMED_OUT else finding.detail
    return dataclasses.replace(finding, problems=tuple(map(local, finding.problems)), detail=detail)
