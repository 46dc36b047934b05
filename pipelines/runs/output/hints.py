"""Commands to try next, ready to paste into the user's shell."""

import contextlib
import os
import shlex
import shutil
import sys
from pathlib import Path

from components.model_version.decisions import HELD
from components.run_result.summary import EXIT_TASK, Summary
from components.shared.vertex.labels import WAITING
from pipelines.places.target import LOCAL_PROJECT, Target, default_state_dir


def command(text: str, target: Target) -> str:
    """Return a command with the target's options, and with the program's folder if not on PATH."""
    program, _, rest = text.partition(" ")
    folder = Path(sys.executable).parent
    if shutil.which(program) != str(folder / program):
        program = _relative(folder / program)
    options = _target_options(target) if Path(program).name == "trainyard" else ""
    return f"{program} {rest}{options}"


def log_command(run: str, task: str, target: Target) -> str:
    """Return the command that shows the log of a task, or of all with ""."""
    return command(f"trainyard runs logs {run}" + (f" --task {task}" if task else ""), target)


def stop_command(target: Target) -> str:
    """Return the command that stops this machine's service."""
    return command(f"vertex-local stop --root {_path(target.state_dir / 'vertex')}", target)


def after_failure(summary: Summary, target: Target) -> list[str]:
    """Return commands to try after a run that did not succeed."""
    run, task = summary.run, summary.failed_task
    repeat = f"teardown {run}" if task == EXIT_TASK else f"runs resume {run} --wait"
    return [
        log_command(run, task, target),
        command(f"trainyard runs show {run}", target),
        command(f"trainyard {repeat}", target),
    ]


def decisions_after(summary: Summary) -> list[str]:
    """Return commands by which a person decides after a run that promoted nothing."""
    model, version = summary.settings.get("model_name", summary.workload), summary.model_version
    if summary.outcome == WAITING and version:
        return [
            f"trainyard models approve {version}",
            f"trainyard models reject {version} --reason TEXT",
        ]
    end_hold = [f"trainyard models release {model}"] if summary.outcome == HELD else []
    return [f"trainyard models history {model}", *end_hold]


def _target_options(target: Target) -> str:
    if target.project != LOCAL_PROJECT:
        return f" --on vertex --project {target.project} --location {target.location}"
    with contextlib.suppress(FileNotFoundError):
        if target.state_dir == default_state_dir():
            return ""
    return f" --state-dir {_path(target.state_dir)}"


def _path(path: Path) -> str:
    """Return a path, relative if it is in the current folder, quoted for a shell."""
    relative = _relative(path)
    return shlex.quote(str(path) if relative.startswith("..") else relative)


def _relative(path: Path) -> str:
    """Return a path from the current folder, or as it is if that was removed."""
    try:
        return os.path.relpath(path)
    except FileNotFoundError:
        return str(path)
