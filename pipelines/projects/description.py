"""The description of a user's workload, from another process: none of its code runs here."""

import json
import subprocess

from pipelines.config.run_config import RunConfig
from pipelines.projects.project import Snapshot
from pipelines.projects.runs import in_run_file
from pipelines.projects.user_code import running
from trainer import Json
from trainer.errors import ConfigError
from trainer.references import FILE

TIMEOUT_SECONDS = 120


def describe(config: RunConfig, snapshot: Snapshot | None = None) -> Json:
    """Load a user's workload in another process, check the run's settings, return a description.

    Raises:
        ConfigError: the workload cannot be loaded, or a setting is not allowed; names the user's
            file and line.
    """
    reference = str(snapshot.folder) if snapshot else config.workload
    train = {"strategy": config.cluster.strategy, **config.train.given()}
    with running(["trainer.describe", reference, "--train", json.dumps(train)]) as child:
        try:
            output, _ = child.process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise ConfigError(
                f"{config.workload} is not imported within {TIMEOUT_SECONDS} s; move slow work,"
                " such as downloads, into functions"
            ) from error
        try:
            described: Json = json.loads(output)
        except ValueError as error:
            raise ConfigError(
                f"{config.workload}: the process that imports it ended with exit code "
                f"{child.process.returncode}:\n{child.last_lines()}"
            ) from error
    if "error" in described:
        problem = str(described["error"])
        run_file = snapshot.project.run_file if snapshot else None
        raise ConfigError(in_run_file(_in_users_words(problem, snapshot), config, run_file))
    return described


def _in_users_words(error: str, snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return error
    note = ""
    if snapshot.project.is_file and "ModuleNotFoundError" in error:
        note = (
            f"; a single file is copied alone: to import modules beside it, give the file the name "
            f"{FILE}, in a folder with these modules, and give that folder"
        )
    return snapshot.in_users_words(error) + note
