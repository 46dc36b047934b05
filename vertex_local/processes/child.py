"""One process of a group: its start, its state and its end."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from vertex_local import Json, redirect
from vertex_local.machine import docker as containers
from vertex_local.machine import system
from vertex_local.machine.children import signal_name
from vertex_local.machine.clock import now
from vertex_local.machine.docker import Container
from vertex_local.machine.files import last_lines
from vertex_local.processes import forking, warm
from vertex_local.processes.environments.layer import Interpreter, Layer
from vertex_local.processes.forking import ForkSpec, fork
from vertex_local.processes.programs import Program
from vertex_local.processes.restarts import is_lost_exit


@dataclass
class ProcessSpec:
    """One process to run.

    Attributes:
        name: Its name in messages and in the state: `chief/0`.
        command: Program and arguments, run without a shell. `python` and `python3` are the
            interpreter of the service, or in a container the image's.
        env: Variables to add to the environment of the service or of the image.
        cwd: Working directory; None for the service's or the image's.
        log_path: File to which stdout and stderr are appended.
        is_primary: Whether its exit decides the outcome of the group. If no process is primary,
            all that are not services decide.
        is_service: Whether it is stopped once the primary processes have exited; an early exit
            with code 0 is ignored.
        holds_state: Whether the others cannot continue without it: all are restarted with it.
        yields: Whether its threads, when they wake, wait for the one that runs (SCHED_BATCH).
        container: Container to run it in; None to run it on this machine.
        environment: Prefix of the Python environment, which is read-only for the group and gets a
            layer for this process; empty to use the Python of the service directly.
    """

    name: str
    command: list[str]
    env: dict[str, str]
    cwd: str | None
    log_path: Path
    is_primary: bool = False
    is_service: bool = False
    holds_state: bool = False
    yields: bool = False
    container: Container | None = None
    environment: str = ""


@dataclass
class Replica(ProcessSpec):
    """One process of a group, with its command and its state; `folder` is the group's."""

    folder: Path = Path()
    pid: int | None = None
    state: str = "starting"
    exit_code: int | None = None
    killed_by: str = ""
    started: str = ""
    ended: str = ""
    restarts: int = 0
    usage: dict[str, float] = field(default_factory=dict)
    temp_dir: Path = Path()
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def is_alive(self) -> bool:
        """True if its process was started and has not been reaped."""
        return self.pid is not None and self.exit_code is None

    def summary(self) -> Json:
        """Return the entry of this process in state.json."""
        keys = ("pid", "state", "exit_code", "started", "ended", "restarts")
        values = {key: getattr(self, key) for key in keys}
        if self.container:  # `docker run` was measured, not the container
            return {**values, "container": self.container_name}
        return values | self.usage

    @property
    def container_name(self) -> str:
        """Name of the container; each restart has another."""
        return containers.name_of(self.folder, self.name, num_restarts=self.restarts)

    @property
    def is_lost(self) -> bool:
        """True if a restart may help: a signal ended it, or its exit code asks for a restart."""
        return bool(self.exit_code) and is_lost_exit(self.exit_code, self.killed_by)

    def reset_for_restart(self) -> None:
        """Reset the state of the last run before a restart."""
        self.process, self.pid, self.exit_code, self.killed_by = None, None, None, ""
        self.state, self.ended, self.usage = "restarting", "", {}
        self.restarts += 1

    def start(self, temp_dir: Path) -> None:
        """Start the process, as a fork of this one if possible; its TMPDIR is `temp_dir`.

        Raises:
            OSError, ValueError, subprocess.SubprocessError: see `start_error_message`.
        """
        self.temp_dir = temp_dir
        with _open_log(self.log_path) as log:
            self.pid = self._start_contained(log) if self.container else self._start(temp_dir, log)
        self.state = "running"
        self.started = now(timespec="milliseconds")

    def _start(self, temp_dir: Path, log: BinaryIO) -> int:
        env, layer = _environment(self.env, temp_dir), None
        if self.environment:
            folder = Path(tempfile.mkdtemp(prefix="python-", dir=temp_dir))
            layer = Layer.make(folder, base=Path(self.environment))
            env = layer.environment(env)
        program = Program.of(self.command)
        if program and self._can_fork(env):
            pid = self._fork(program, env, log, layer)
        else:
            pid = self._spawn(_with_interpreter(self.command, layer), env, log, cwd=self.cwd)
        if self.yields:
            system.yield_cores(pid)
        return pid

    def _can_fork(self, env: dict[str, str]) -> bool:
        """Return whether this is a fork of a warm process whose modules the program can use."""
        used = Interpreter.of(Path(self.environment or sys.prefix))
        if used != Interpreter.of(Path(sys.prefix)):
            return False
        return bool(forking.PRELOADED and forking.PRELOADED.can_run(env, self.cwd))

    def _start_contained(self, log: BinaryIO) -> int:
        assert self.container
        command = containers.run_command(
            self.container,
            name=self.container_name,
            group=self.folder,
            command=self.command,
            env=self.env,
            cwd=self.cwd,
        )
        return self._spawn(command, containers.client_environment(self.env), log)

    def _fork(
        self, program: Program, env: dict[str, str], log: BinaryIO, layer: Layer | None
    ) -> int:
        def run() -> None:
            if layer:
                layer.adopt()
            program.run()

        null = os.open(os.devnull, os.O_RDONLY)
        spec = ForkSpec(
            run=run,
            stdin=null,
            output=log.fileno(),
            kept=warm.inherited_fds(),
            env=env,
            cwd=self.cwd,
            dies_with_parent=True,
        )
        try:
            return fork(spec)
        finally:
            os.close(null)

    def _spawn(
        self, command: list[str], env: dict[str, str], log: BinaryIO, *, cwd: str | None = None
    ) -> int:
        self.process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=warm.inherited_fds(),
            start_new_session=True,
            preexec_fn=system.die_with_parent(),  # noqa: PLW1509  no threads here
        )
        return self.process.pid

    def record_exit(self, code: int, *, was_requested: bool) -> None:
        """Record an exit code; a negative one is the signal that ended the process."""
        if self.process:
            self.process.returncode = code
        self.exit_code = code
        if code < 0:  # 128 + signal, as in shells and containers
            self.exit_code = 128 - code
            self.killed_by = signal_name(-code)
        elif self.container and (number := containers.killing_signal(code)):
            self.killed_by = signal_name(number)
        self.ended = now(timespec="milliseconds")
        if code == 0:
            self.state = "succeeded"
        else:
            self.state = "ended" if was_requested else "failed"

    def crash_message(self) -> str:
        """Return an error with the name, exit code, signal and last lines of the process."""
        cause = f" (killed by {self.killed_by})" if self.killed_by else ""
        plural = "" if self.restarts == 1 else "s"
        restarts = f" after {self.restarts} restart{plural}" if self.restarts else ""
        lines = last_lines(self.log_path)
        output = f"Last lines:\n{lines}" if lines else "It wrote nothing."
        return f"{self.name} exited with code {self.exit_code}{cause}{restarts}. {output}"

    def start_error_message(self, error: Exception) -> str:
        """Return the message for an exception of `start`: the problem and its remedy."""
        program = "docker" if self.container else self.command[0]
        is_missing = isinstance(error, FileNotFoundError)
        if is_missing and getattr(error, "filename", None) == program:
            return f"command {program!r} was not found; install it or give its absolute path"
        if is_missing and self.cwd and not Path(self.cwd).is_dir():
            return f"its working directory {self.cwd!r} does not exist"
        return str(error)


def _open_log(path: Path) -> BinaryIO:
    """Open a log to append to; a pipe without waiting for its reader, who may have been killed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
        os.set_blocking(fd, True)
        return open(fd, "ab")
    except OSError as error:
        raise OSError(f"its log {path} cannot be written: {error.strerror}") from error


def _with_interpreter(command: list[str], layer: Layer | None) -> list[str]:
    """Return the command with `python` replaced: by the layer's, or else by the service's."""
    if command[0] in ("python", "python3"):
        return [str(layer.python) if layer else sys.executable, *command[1:]]
    return command


def _environment(env: dict[str, str], temp_dir: Path) -> dict[str, str]:
    merged = {**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(temp_dir), **env}
    if own := env.get("PYTHONPATH"):
        merged["PYTHONPATH"] = redirect.joined(own, os.environ.get("PYTHONPATH", ""))
    merged["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), merged.get("PATH", "")])
    return merged
