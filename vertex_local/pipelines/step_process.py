"""Runs a Python component's command as a group of its own, and keeps what it says."""

import os
import re
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from vertex_local.json_types import Json
from vertex_local.machine.docker import Container
from vertex_local.processes import group as processes
from vertex_local.processes.launch import Launch
from vertex_local.processes.warm import WarmClient

ANSI_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
POLL_SECONDS = 0.02
STOP_GRACE_SECONDS = 5.0
LAST_WORDS_SECONDS = 2.0  # what the step has left unread is copied within this
STEP = "the step"
RUN_VARIABLES = ("VERTEX_EMULATOR_HOST", "VERTEX_AI_PIPELINES_RUN_LABELS")


def run(
    command: list[str],
    *,
    env: dict[str, str],
    log_path: Path,
    temp_dir: Path,
    must_stop: Callable[[], bool],
    warm: WarmClient | None = None,
    container: Container | None = None,
    environment: Path | None = None,
) -> int:
    """Runs a step to its end and returns its exit code; 128 and more: the signal that ended it.

    Its Python has the packages of `environment`, a prefix (default: the service's own), below a
    layer of the step's own, so that it can change neither (`environments/layer.py`).

    It is a group of one process (`processes/group.py`), so nothing of it survives this process or
    its own end. Its output goes to `log_path` and to this process's stdout.

    Raises:
        OSError: it could not be started.
    """
    is_own = environment is None or str(environment) == sys.prefix
    temp_dir.mkdir(parents=True, exist_ok=True)
    pipe = temp_dir / "output"
    os.mkfifo(pipe)
    # Opened for writing, too: so opening does not wait, and only closing it ends the reader.
    with log_path.open("a", buffering=1) as log, pipe.open("r+b", buffering=0) as kept_open:
        source = open(pipe, encoding="utf-8", errors="replace")  # noqa: SIM115  the reader's
        reader = threading.Thread(target=_copy, args=(source, log), daemon=True)
        reader.start()
        spec = processes.ProcessSpec(
            name=STEP,
            command=command,
            env=_contained_environment(env) if container else _environment(env, temp_dir),
            # A folder of modules beside the service would come before the packages.
            cwd=None if is_own or container else str(temp_dir),
            log_path=pipe,
            container=container,
            environment="" if container else str(environment or sys.prefix),
        )
        launch = Launch(warm=warm if is_own and not container else None)
        group = processes.start(temp_dir / "group", [spec], timeout_seconds=None, launch=launch)
        state = _await_end(group, must_stop)
        kept_open.close()
        reader.join(LAST_WORDS_SECONDS)
    shutil.rmtree(temp_dir, ignore_errors=True)
    code = state["replicas"].get(STEP, {}).get("exit_code")
    if code is None:
        raise OSError(state["message"])
    return int(code)


def plain(text: str) -> str:
    """The text without colours and other terminal escapes."""
    return ANSI_ESCAPE.sub("", text)


def _environment(env: dict[str, str], temp_dir: Path) -> dict[str, str]:
    """The runner's environment with the step's own; the supervisor adds the interpreter's PATH."""
    return {**os.environ, "TMPDIR": str(temp_dir), **env}


def _contained_environment(env: dict[str, str]) -> dict[str, str]:
    """Of the runner's environment, what tells a step where and in which run it is."""
    return {**{name: os.environ[name] for name in RUN_VARIABLES if name in os.environ}, **env}


def _copy(source: IO[str], log: IO[str]) -> None:
    with source:
        for line in source:
            text = plain(line)
            sys.stdout.write(text)
            try:
                log.write(text)
            except ValueError:  # closed: the step has ended, and this was too slow
                return


def _await_end(group: processes.Group, must_stop: Callable[[], bool]) -> Json:
    is_asked = False
    while not group.has_ended(POLL_SECONDS):
        if not is_asked and must_stop():
            is_asked = True
            group.request_stop(STOP_GRACE_SECONDS)
    return group.state()
