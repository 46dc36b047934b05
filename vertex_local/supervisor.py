"""Runs one group of processes and sees to it that nothing of it stays behind.

`python -m vertex_local.supervisor FOLDER` starts what FOLDER/group.json lists and keeps
FOLDER/state.json up to date (see `processes.py`, which writes the one and reads the other). The
service holds the write end of this process's stdin: `stop SECONDS` on it ends the group, and its
end, which comes even when the service is killed, ends it at once. Only the standard library is
imported, so that a group starts in some 50 ms.
"""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from vertex_local import linux, private_network
from vertex_local.files import last_lines, make_temp_dir, now, remove_temp_dir, write_json

GROUP_FILE = "group.json"
STATE_FILE = "state.json"
LOCK_FILE = "supervisor.lock"
INTERRUPTED = "interrupted: the service stopped"

END_GRACE_SECONDS = 3.0
STRAYS_TIMEOUT_SECONDS = 10.0


@dataclass
class Replica:
    """One process of the group: what to run, and how it fares."""

    name: str
    command: list[str]
    env: dict[str, str]
    cwd: str | None
    log_path: str
    is_primary: bool
    is_service: bool
    pid: int | None = None
    state: str = "starting"
    exit_code: int | None = None
    killed_by: str = ""
    started: str = ""
    ended: str = ""
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def is_alive(self) -> bool:
        """Whether its process was started and has not been reaped."""
        return self.process is not None and self.exit_code is None

    def summary(self) -> dict[str, Any]:
        """Its part of state.json."""
        keys = ("pid", "state", "exit_code", "started", "ended")
        return {key: getattr(self, key) for key in keys}


class Supervisor:
    """Starts the replicas, waits for one of the reasons to end them all, and ends them all."""

    def __init__(self, folder: Path) -> None:
        plan = json.loads((folder / GROUP_FILE).read_text())
        self._folder = folder
        self._state_path = folder / STATE_FILE
        self._replicas = [Replica(**replica) for replica in plan["replicas"]]
        self._has_private_network: bool = plan["has_private_network"]
        self._timeout_seconds: float | None = plan["timeout_seconds"]
        self._deadline = time.monotonic() + (self._timeout_seconds or float("inf"))
        self._kill_at = float("inf")
        self._outcome: tuple[str, str] | None = None
        self._commands = b""
        self._stdin_is_open = True
        self._wake_fd = linux.open_wake_fd()
        linux.become_subreaper()
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, self._on_sigterm)

    def run(self) -> None:
        """Runs the group to its end; the last state is written when every process is gone."""
        self._read_commands(0)
        if self._has_private_network:
            _enter_private_network()
        self._start_replicas(temp_dir=make_temp_dir(self._folder))
        while self._has_live_replicas():
            self._read_commands(self._seconds_to_wait())
            self._check_time()
        linux.kill_all_children(timeout_seconds=STRAYS_TIMEOUT_SECONDS)
        remove_temp_dir(self._folder)
        for replica in self._replicas:
            if replica.state == "starting":
                replica.state = "ended"
        state, message = self._outcome or ("failed", "nothing was started")
        self._write_state(state, message)

    def _has_live_replicas(self) -> bool:
        self._reap()
        self._decide()
        return any(replica.is_alive for replica in self._replicas)

    def _start_replicas(self, *, temp_dir: Path) -> None:
        for replica in self._replicas:
            if self._outcome:
                return
            try:
                self._start(replica, temp_dir=temp_dir)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                replica.state = "failed"
                reason = _why_not_started(error, replica)
                self._end("failed", f"{replica.name} could not start: {reason}")
            self._write_state()
            self._read_commands(0)

    def _start(self, replica: Replica, *, temp_dir: Path) -> None:
        with _open_log(Path(replica.log_path)) as log:
            replica.process = subprocess.Popen(
                _resolved(replica.command),
                env=_environment(replica.env, temp_dir),
                cwd=replica.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=linux.die_with_parent(),  # noqa: PLW1509  no threads here
            )
        replica.pid = replica.process.pid
        replica.state = "running"
        replica.started = now()

    def _decide(self) -> None:
        """Settles the outcome as soon as the exits so far allow it."""
        if self._outcome:
            return
        deciding = [replica for replica in self._replicas if replica.is_primary]
        if not deciding:
            deciding = [replica for replica in self._replicas if not replica.is_service]
        if all(replica.exit_code == 0 for replica in deciding):
            self._end("succeeded", "")
            return
        crashed = [replica for replica in self._replicas if replica.exit_code]
        if crashed:
            # A replica that was killed brings others down: the signal is the likelier cause.
            killed = [replica for replica in crashed if replica.killed_by]
            self._end("failed", _crash_message((killed or crashed)[0]))

    def _end(self, state: str, message: str, grace_seconds: float = END_GRACE_SECONDS) -> None:
        """Asks every process to end, and to be killed when the grace is over."""
        self._outcome = self._outcome or (state, message)
        self._kill_at = min(self._kill_at, time.monotonic() + grace_seconds)
        self._signal_all(signal.SIGTERM if grace_seconds > 0 else signal.SIGKILL)

    def _signal_all(self, number: signal.Signals) -> None:
        for replica in self._replicas:
            if replica.is_alive and replica.pid:
                linux.signal_group(replica.pid, number)

    def _seconds_to_wait(self) -> float | None:
        due = min(self._kill_at, self._deadline if self._outcome is None else float("inf"))
        return None if due == float("inf") else max(0.0, due - time.monotonic())

    def _check_time(self) -> None:
        moment = time.monotonic()
        if moment >= self._kill_at:
            self._kill_at = float("inf")
            self._signal_all(signal.SIGKILL)
        if self._outcome is None and moment >= self._deadline:
            running = [replica.name for replica in self._replicas if replica.is_alive]
            verb = "was" if len(running) == 1 else "were"
            self._end(
                "timed_out",
                f"the job's timeout of {self._timeout_seconds:g} s passed; "
                f"{', '.join(running)} {verb} still running",
            )

    def _read_commands(self, timeout_seconds: float | None) -> None:
        """Waits for a child's end, a command, the service's end, or the time to pass."""
        sources = [self._wake_fd, *([0] if self._stdin_is_open else [])]
        ready, _, _ = select.select(sources, [], [], timeout_seconds)
        if self._wake_fd in ready:
            os.read(self._wake_fd, 4096)
        if 0 in ready:
            received = os.read(0, 4096)
            self._stdin_is_open = bool(received)
            if not received:
                self._end("failed", INTERRUPTED, grace_seconds=0)
            *lines, self._commands = (self._commands + received).split(b"\n")
            for line in lines:
                self._obey(line.decode(errors="replace"))

    def _obey(self, line: str) -> None:
        match line.split():
            case ["stop", seconds]:
                self._end("cancelled", "stopped on request", grace_seconds=float(seconds))
            case _:
                sys.stderr.write(f"unknown command {line!r}: expected 'stop SECONDS'\n")

    def _on_sigterm(self, *_: object) -> None:
        self._end("cancelled", "the supervisor was asked to end")

    def _reap(self) -> None:
        replicas = {replica.pid: replica for replica in self._replicas if replica.is_alive}
        while pid := linux.next_dead_child():
            replica = replicas.get(pid)
            if replica:
                linux.signal_group(pid, signal.SIGKILL)  # what the leader left behind
            code = linux.reap(pid)
            if replica:
                self._record_end(replica, code)

    def _record_end(self, replica: Replica, code: int) -> None:
        assert replica.process is not None
        replica.process.returncode = code
        replica.exit_code = code
        if code < 0:  # as shells and containers count it
            replica.exit_code = 128 - code
            replica.killed_by = linux.signal_name(-code)
        replica.ended = now()
        if code == 0:
            replica.state = "succeeded"
        else:
            replica.state = "ended" if self._outcome else "failed"
        self._write_state()

    def _write_state(self, state: str = "running", message: str = "") -> None:
        replicas = {replica.name: replica.summary() for replica in self._replicas}
        body = {"state": state, "message": message, "replicas": replicas}
        try:
            write_json(self._state_path, body)
        except OSError as error:  # a full disk must not leave processes behind
            sys.stderr.write(f"cannot write {self._state_path}: {error}\n")


def _enter_private_network() -> None:
    try:
        private_network.enter()
    except OSError as error:
        sys.stderr.write(f"{error}; other machines may reach the ports of these processes\n")


def _open_log(path: Path) -> BinaryIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab")
    except OSError as error:
        raise OSError(f"its log {path} cannot be written: {error.strerror}") from error


def _crash_message(replica: Replica) -> str:
    cause = f" (killed by {replica.killed_by})" if replica.killed_by else ""
    lines = last_lines(Path(replica.log_path))
    said = f"Last lines:\n{lines}" if lines else "It wrote nothing."
    return f"{replica.name} exited with code {replica.exit_code}{cause}. {said}"


def _why_not_started(error: Exception, replica: Replica) -> str:
    program = replica.command[0]
    is_missing = isinstance(error, FileNotFoundError)
    if is_missing and getattr(error, "filename", None) == program:
        return f"command {program!r} was not found; install it or give its absolute path"
    if is_missing and replica.cwd and not Path(replica.cwd).is_dir():
        return f"its working directory {replica.cwd!r} does not exist"
    return str(error)


def _resolved(command: list[str]) -> list[str]:
    """`python` is the interpreter that the service runs on, whose packages are known."""
    if command[0] in ("python", "python3"):
        return [sys.executable, *command[1:]]
    return command


def _environment(env: dict[str, str], temp_dir: Path) -> dict[str, str]:
    merged = {**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(temp_dir), **env}
    merged["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), merged.get("PATH", "")])
    return merged


def main() -> None:
    """Runs the group of the folder named on the command line."""
    folder = Path(sys.argv[1])
    with (folder / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        Supervisor(folder).run()


if __name__ == "__main__":
    main()
