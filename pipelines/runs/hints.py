"""Commands to try next, as they can be pasted where the user is."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from components.run_summary.summary import Summary
from pipelines.target.places import LOCAL_PROJECT, Target, default_state_dir


def command(text: str, target: Target) -> str:
    """Return a command with the options that say where; with this environment's folder if needed.

    The folder of the programs is left out where it is on PATH.
    """
    program, _, rest = text.partition(" ")
    folder = Path(sys.executable).parent
    if shutil.which(program) != str(folder / program):
        program = os.path.relpath(folder / program)
    options = _where(target) if Path(program).name == "trainyard" else ""
    return f"{program} {rest}{options}"


def log_command(run: str, task: str, target: Target) -> str:
    """Return the command that shows what a task wrote."""
    return command(f"trainyard runs logs {run}" + (f" --task {task}" if task else ""), target)


def stop_command(target: Target) -> str:
    """Return the command that ends this machine's service."""
    return command(f"vertex-local stop --root {_path(target.state_dir / 'vertex')}", target)


def after_failure(summary: Summary, target: Target) -> list[str]:
    """Return what to try after a run that did not succeed."""
    run = summary.run
    return [
        log_command(run, summary.failed_task, target),
        command(f"trainyard runs show {run}", target),
        command(f"trainyard runs resume {run} --wait", target),
    ]


def _where(target: Target) -> str:
    if target.project != LOCAL_PROJECT:
        return f" --on vertex --project {target.project} --location {target.location}"
    if target.state_dir == default_state_dir():
        return ""
    return f" --state-dir {_path(target.state_dir)}"


def _path(path: Path) -> str:
    """Return a path as short as it can be written here, quoted for a shell."""
    near = os.path.relpath(path)
    return shlex.quote(str(path) if near.startswith("..") else near)
