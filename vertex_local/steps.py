"""Runs a Python component's command as a process of its own, and keeps what it says."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

ANSI_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
POLL_SECONDS = 0.02
STOP_GRACE_SECONDS = 5.0
LAST_WORDS_SECONDS = 2.0  # a detached child may hold the pipe open; the step has ended all the same


def run(
    command: list[str],
    *,
    env: dict[str, str],
    log_path: Path,
    temp_dir: Path,
    must_stop: Callable[[], bool],
) -> int:
    """Runs a step to its end and returns its exit code; negative: the signal that ended it.

    The step has a session, and so a process group, of its own; nothing in that group survives it.
    Its output goes to `log_path` and to this process's stdout.
    """
    temp_dir.mkdir(parents=True, exist_ok=True)
    with log_path.open("a", buffering=1) as log:
        process = subprocess.Popen(
            command,
            env=_environment(env, temp_dir),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        reader = threading.Thread(target=_copy, args=(process.stdout, log), daemon=True)
        reader.start()
        code = _await_end(process, must_stop)
        reader.join(LAST_WORDS_SECONDS)
    shutil.rmtree(temp_dir, ignore_errors=True)
    return code


def plain(text: str) -> str:
    """The text without colours and other terminal escapes."""
    return ANSI_ESCAPE.sub("", text)


def _environment(env: dict[str, str], temp_dir: Path) -> dict[str, str]:
    """The runner's environment, and this interpreter as `python3`."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {"PYTHONUNBUFFERED": "1", "TMPDIR": str(temp_dir), "PATH": path}
    return {**os.environ, **own, **env}


def _copy(source: IO[str], log: IO[str]) -> None:
    for line in source:
        text = plain(line)
        sys.stdout.write(text)
        try:
            log.write(text)
        except ValueError:  # closed: the step has ended, a detached child still talks
            return


def _await_end(process: "subprocess.Popen[str]", must_stop: Callable[[], bool]) -> int:
    kill_at = float("inf")
    while not _has_ended(process.pid):
        if kill_at == float("inf") and must_stop():
            kill_at = time.monotonic() + STOP_GRACE_SECONDS
            _signal_group(process.pid, signal.SIGTERM)
        if time.monotonic() > kill_at:
            _signal_group(process.pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    # The dead leader is not reaped yet, so its group's number cannot belong to a stranger.
    _signal_group(process.pid, signal.SIGKILL)
    return process.wait()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
