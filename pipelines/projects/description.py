"""The description of a user's workload, from another process: none of its code runs here."""

import json
import re
import subprocess
import sys

from pipelines.config.run_config import RunConfig
from pipelines.projects.project import Snapshot
from pipelines.projects.run_file import place_of
from trainer import Json
from trainer.errors import ConfigError
from trainer.references import FILE
from trainer.runtime.processes import ends_with_parent

# -P: a json.py in the current folder must not hide Python's own.
COMMAND = [sys.executable, "-P", "-m", "trainer.describe"]
TIMEOUT_SECONDS = 120
MAX_LINES = 5


def describe(config: RunConfig, snapshot: Snapshot | None = None) -> Json:
    """Load a user's workload in another process, check the run's settings, return a description.

    Args:
        config: the run; its `train` is checked against the workload.
        snapshot: the code that the run will use.

    Raises:
        ConfigError: the workload cannot be loaded, or a setting is not allowed; names the user's
            file and line.
    """
    reference = str(snapshot.folder) if snapshot else config.workload
    train = {"strategy": config.cluster.strategy, **config.train}
    try:
        done = subprocess.run(
            [*COMMAND, reference, "--train", json.dumps(train)],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            preexec_fn=ends_with_parent(),
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"{config.workload} is not imported within {TIMEOUT_SECONDS} s; move slow work, such "
            "as downloads, into functions"
        ) from error
    try:
        found: Json = json.loads(done.stdout)
    except ValueError as error:
        last = "\n".join(done.stderr.splitlines()[-MAX_LINES:])
        raise ConfigError(
            f"{config.workload}: the process that imports it ended with exit code "
            f"{done.returncode}:\n{last}"
        ) from error
    if "error" in found:
        problem = str(found["error"])
        raise ConfigError(_place(problem, config, snapshot) + _in_users_words(problem, snapshot))
    return found


def _place(error: str, config: RunConfig, snapshot: Snapshot | None) -> str:
    """Return the file and line of the setting that an error begins with, if it is in run.yaml."""
    flag = re.match(r"--([\w.-]+\w)", error)
    path = snapshot.project.run_file if snapshot else None
    if not flag or not path:
        return ""
    name = flag[1] if flag[1].startswith("model.") else flag[1].replace("-", "_")
    return place_of(name, config.train[name], path) if name in config.train else ""


def _in_users_words(error: str, snapshot: Snapshot | None) -> str:
    """Return an error with the user's file instead of its copy."""
    if snapshot is None:
        return error
    project = snapshot.project
    if not project.is_file:
        return error.replace(str(snapshot.folder), str(project.path))
    note = ""
    if "ModuleNotFoundError" in error:
        note = (
            f"; a single file is copied alone: to import modules beside it, give the file the name "
            f"{FILE}, in a folder with these modules, and give that folder"
        )
    return error.replace(str(snapshot.folder / FILE), str(project.path)) + note
