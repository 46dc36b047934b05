"""Execution of a step's command as a process group of its own, with a log."""

import os
import re
import shutil
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from vertex_local import Json
from vertex_local.client import EMULATOR_VARIABLE, TOKEN_VARIABLE
from vertex_local.machine.docker import Container
from vertex_local.machine.files import NUM_LAST_LINES
from vertex_local.processes import group as processes
from vertex_local.processes.launch import Launch
from vertex_local.processes.warm import WarmClient

ANSI_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
POLL_SECONDS = 0.02
STOP_GRACE_SECONDS = 5.0
COPY_TIMEOUT_SECONDS = 2.0  # for copying the rest of the output after the end
STEP = "the step"
RUN_VARIABLES = (
    EMULATOR_VARIABLE,
    TOKEN_VARIABLE,
    "CLOUD_ML_PROJECT_ID",
    "CLOUD_ML_REGION",
    "VERTEX_AI_PIPELINES_RUN_LABELS",
)


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
    """Run a step to its end; return its exit code, 128 + N if signal N ended it.

    Its Python has the packages of `environment`, a prefix (default: the service's own). A layer
    above it takes what the step itself installs (`environments/layer.py`).

    It is a group of one process (`processes/group.py`), so its processes end with it or with this
    process. Its output goes to `log_path` and to this process's stdout.

    Raises:
        OSError: It could not be started, or it failed and its log could not be written.
    """
    is_own = environment is None or str(environment) == sys.prefix
    inherited = {**os.environ, "TMPDIR": str(temp_dir)}  # the supervisor adds the PATH
    if container:  # the host's variables are not its own
        inherited = {name: os.environ[name] for name in RUN_VARIABLES if name in os.environ}
    temp_dir.mkdir(parents=True, exist_ok=True)
    pipe = temp_dir / "output"
    os.mkfifo(pipe)
    # Opening it for writing as well does not block, and the reader ends only when it is closed.
    with log_path.open("ab", buffering=0) as log, pipe.open("r+b", buffering=0) as kept_open:
        source = open(pipe, encoding="utf-8", errors="replace")  # noqa: SIM115  the reader's
        lost: deque[str] = deque(maxlen=NUM_LAST_LINES)
        reader = threading.Thread(target=_copy, args=(source, log, lost), daemon=True)
        reader.start()
        spec = processes.ProcessSpec(
            name=STEP,
            command=command,
            env=inherited | env,
            # Modules in the service's working directory would hide packages of the same name.
            cwd=None if is_own or container else str(temp_dir),
            log_path=pipe,
            container=container,
            environment="" if container else str(environment or sys.prefix),
        )
        launch = Launch(warm=None if container else warm, is_light=not is_own)
        group = processes.start(temp_dir / "group", [spec], timeout_seconds=None, launch=launch)
        state = _await_end(group, must_stop)
        kept_open.close()
        reader.join(COPY_TIMEOUT_SECONDS)
    shutil.rmtree(temp_dir, ignore_errors=True)
    code = state["replicas"].get(STEP, {}).get("exit_code")
    if code is None:
        raise OSError(state["message"])
    if code and lost:
        reason = f"the step exited with code {code}, and {log_path} cannot be written"
        raise OSError(f"{reason}. Last lines:\n{''.join(lost).rstrip()}")
    return int(code)


def plain(text: str) -> str:
    """Remove colours and other terminal escapes."""
    return ANSI_ESCAPE.sub("", text)


def _copy(source: IO[str], log: IO[bytes], lost: deque[str]) -> None:
    """Copy the lines of a step to its log and to stdout; keep the last that the log loses."""
    with source:
        for line in source:
            text = plain(line)
            # A full disk, another encoding, closed at the timeout: read on, or the step waits.
            with suppress(OSError, ValueError):
                sys.stdout.write(text)
            with suppress(OSError, ValueError):
                if log.write(text.encode()) == len(text.encode()):
                    continue
            lost.append(text)


def _await_end(group: processes.Group, must_stop: Callable[[], bool]) -> Json:
    is_stopping = False
    while not group.has_ended(POLL_SECONDS):
        if not is_stopping and must_stop():
            is_stopping = True
            group.request_stop(STOP_GRACE_SECONDS)
    return group.state()
