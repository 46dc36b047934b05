"""Runs one group of processes and sees to it that nothing of it stays behind.

`python -m vertex_local.processes.supervisor FOLDER` starts what FOLDER/group.json lists and keeps
FOLDER/state.json up to date (see `group.py`, which writes the one and reads the other). The
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
from pathlib import Path
from typing import Any

from vertex_local.machine import docker as containers
from vertex_local.machine import linux, private_network
from vertex_local.machine.docker import Container
from vertex_local.machine.files import make_temp_dir, remove_temp_dir, write_json
from vertex_local.processes import pid_namespace
from vertex_local.processes.child import Replica
from vertex_local.processes.environments import layer
from vertex_local.processes.log_times import LOOK_SECONDS, LogClock
from vertex_local.processes.restarts import Restarts
from vertex_local.processes.usage.sampler import Sampler

GROUP_FILE = "group.json"
STATE_FILE = "state.json"
LOCK_FILE = "supervisor.lock"
INTERRUPTED = "interrupted: the service stopped"
INIT_KILLED = "the init process of its PID namespace was killed, and all others with it"

END_GRACE_SECONDS = 3.0
CONTAINER_END_GRACE_SECONDS = 10.0  # on a busy machine Docker takes seconds to take one down
STRAYS_TIMEOUT_SECONDS = 10.0


class Supervisor:
    """Starts the replicas, waits for one of the reasons to end them all, and ends them all."""

    def __init__(self, folder: Path) -> None:
        plan = json.loads((folder / GROUP_FILE).read_text())
        self._folder = folder
        self._state_path = folder / STATE_FILE
        self._replicas = [_replica(folder, **values) for values in plan["replicas"]]
        self._log_clock = LogClock([Path(replica.log_path) for replica in self._replicas])
        # Opened before /proc is another one.
        self._sampler = Sampler(folder, self._replicas) if plan["records_usage"] else None
        self._has_private_network: bool = plan["has_private_network"]
        self._warnings: list[str] = []
        self._timeout_seconds: float | None = plan["timeout_seconds"]
        self._restarts = Restarts(plan["max_restarts"], plan["restarts_whole_group"])
        self._deadline = time.monotonic() + (self._timeout_seconds or float("inf"))
        self._temp_dir = folder
        self._init_pid = 0
        self._has_pid_namespace = False
        self._kill_at = float("inf")
        self._outcome: tuple[str, str] | None = None
        self._commands = b""
        self._stdin_is_open = True
        self._wake_fd = linux.open_wake_fd()
        linux.become_subreaper()
        linux.restore_default_signals()
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, self._on_sigterm)

    def run(self) -> None:
        """Runs the group to its end; the last state is written when every process is gone."""
        self._read_commands(0)
        self._make_private_network()
        self._make_pid_namespace()
        self._protect_environments()
        self._temp_dir = make_temp_dir(self._folder)
        self._start_replicas(self._replicas)
        while self._is_at_work():
            self._read_commands(min(LOOK_SECONDS, self._seconds_to_wait()))
            self._check_time()
            self._log_clock.look()
            if self._sampler:
                self._sampler.look()
        linux.kill_all_children(init_pid=self._init_pid, timeout_seconds=STRAYS_TIMEOUT_SECONDS)
        if self._containers:
            containers.remove_group(self._folder)
        self._log_clock.look()
        remove_temp_dir(self._folder)
        for replica in self._replicas:
            if replica.state == "starting":
                replica.state = "ended"
        state, message = self._outcome or ("failed", "nothing was started")
        self._write_state(state, message)

    @property
    def _containers(self) -> list[Container]:
        return [replica.container for replica in self._replicas if replica.container]

    @property
    def _end_grace_seconds(self) -> float:
        return CONTAINER_END_GRACE_SECONDS if self._containers else END_GRACE_SECONDS

    def _make_private_network(self) -> None:
        if self._outcome or not self._has_private_network:
            return
        if not self._containers:
            self._warnings += _enter_private_network()
            return
        try:
            containers.create_network(self._containers[0].root, self._folder)
        except OSError as error:
            self._end("failed", f"a private network could not be made: {error}")

    def _make_pid_namespace(self) -> None:
        if self._outcome or self._containers:
            return
        try:
            self._init_pid = pid_namespace.enter()
        except OSError as error:
            sys.stderr.write(f"no PID namespace: {error}; a kill may leave processes behind\n")
        self._has_pid_namespace = self._init_pid > 0

    def _protect_environments(self) -> None:
        """Let nothing of the group write to environments but to its own layers of them."""
        prefixes = {replica.environment for replica in self._replicas} - {""}
        if self._has_pid_namespace and prefixes:
            layer.protect({sys.prefix, *prefixes})

    def _is_at_work(self) -> bool:
        self._reap()
        self._decide()
        return self._has_live_replicas() or self._restarts.is_planned

    def _has_live_replicas(self) -> bool:
        return any(replica.is_alive for replica in self._replicas)

    def _start_replicas(self, replicas: list[Replica]) -> None:
        for replica in replicas:
            if self._outcome:
                return
            try:
                replica.start(self._temp_dir)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                replica.state = "failed"
                reason = replica.why_not_started(error)
                self._end("failed", f"{replica.name} could not start: {reason}")
            self._write_state()
            self._read_commands(0)

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
        if crashed and not self._can_restart(crashed):
            # A replica that was killed brings others down: the signal is the likelier cause.
            killed = [replica for replica in crashed if replica.killed_by]
            self._end("failed", (killed or crashed)[0].crash_message())

    def _can_restart(self, crashed: list[Replica]) -> bool:
        """Plans a restart for what has crashed, if that may mend it."""
        if self._restarts.whole_group and self._restarts.is_planned:
            return True  # the others crash because of the one that was lost
        new = [replica for replica in crashed if replica.name not in self._restarts.names]
        if not new:
            return True
        is_whole = self._restarts.whole_group or any(r.holds_state for r in new)
        is_lost = any(r.is_lost for r in new) if is_whole else all(r.is_lost for r in new)
        if not is_lost or not self._restarts.are_left:
            return False
        self._plan_restart(self._replicas if is_whole else new)
        return True

    def _plan_restart(self, replicas: list[Replica]) -> None:
        self._restarts.plan({replica.name for replica in replicas}, moment=time.monotonic())
        for replica in replicas:
            if replica.is_alive and replica.pid:
                linux.signal_group(replica.pid, signal.SIGTERM)
        self._kill_at = min(self._kill_at, time.monotonic() + self._end_grace_seconds)

    def _restart(self) -> None:
        names = self._restarts.drop()
        self._kill_at = float("inf")
        replicas = [replica for replica in self._replicas if replica.name in names]
        for replica in replicas:
            replica.forget_end()
        self._start_replicas(replicas)

    def _end(self, state: str, message: str, grace_seconds: float | None = None) -> None:
        """Asks every process to end, and to be killed when the grace is over."""
        grace_seconds = self._end_grace_seconds if grace_seconds is None else grace_seconds
        self._outcome = self._outcome or (state, message)
        self._restarts.drop()
        self._kill_at = min(self._kill_at, time.monotonic() + grace_seconds)
        self._signal_all(signal.SIGTERM if grace_seconds > 0 else signal.SIGKILL)

    def _signal_all(self, number: signal.Signals) -> None:
        for replica in self._replicas:
            if replica.is_alive and replica.pid:
                linux.signal_group(replica.pid, number)

    def _is_anybody_awaited(self) -> bool:
        """Whether a process that is to be started again has not ended yet."""
        return any(r.is_alive for r in self._replicas if r.name in self._restarts.names)

    def _kill_what_must_end(self) -> None:
        for replica in self._replicas:
            if replica.is_alive and replica.pid and self._must_end(replica):
                linux.signal_group(replica.pid, signal.SIGKILL)

    def _seconds_to_wait(self) -> float:
        due = min(self._kill_at, self._deadline if self._outcome is None else float("inf"))
        if not self._is_anybody_awaited():
            due = min(due, self._restarts.due)
        return max(0.0, due - time.monotonic())

    def _check_time(self) -> None:
        moment = time.monotonic()
        if moment >= self._kill_at:
            self._kill_at = float("inf")
            self._kill_what_must_end()
        if moment >= self._restarts.due and not self._is_anybody_awaited():
            self._restart()
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
            code, usage = linux.reap_with_usage(pid)
            if pid == self._init_pid:
                self._init_pid = 0
                self._end("failed", INIT_KILLED, grace_seconds=0)
            if replica:
                if replica.container and code < 0:  # `docker run` was killed, its container not
                    containers.remove(replica.container_name)
                replica.usage = usage
                replica.record_end(code, was_asked_to=self._must_end(replica))
                self._write_state()

    def _must_end(self, replica: Replica) -> bool:
        return bool(self._outcome) or replica.name in self._restarts.names

    def _write_state(self, state: str = "running", message: str = "") -> None:
        replicas = {replica.name: replica.summary() for replica in self._replicas}
        body = {
            "state": state,
            "message": message,
            "warnings": self._warnings,
            "has_pid_namespace": self._has_pid_namespace,
            "replicas": replicas,
        }
        try:
            write_json(self._state_path, body)
        except OSError as error:  # a full disk must not leave processes behind
            sys.stderr.write(f"cannot write {self._state_path}: {error}\n")


def _replica(folder: Path, *, container: dict[str, Any] | None, **values: Any) -> Replica:
    return Replica(**values, folder=folder, container=Container(**container) if container else None)


def _enter_private_network() -> list[str]:
    """Enter it, or return a warning that the group runs without."""
    try:
        private_network.enter()
    except OSError as error:
        warning = (
            "other machines can reach the ports of the replicas, which ask nobody for a password: "
            f"this system refuses a private network ({error}); allow network namespaces, or close "
            "the ports with a firewall"
        )
        sys.stderr.write(f"{warning}\n")
        return [warning]
    return []


def run_group(folder: Path) -> None:
    """Runs the group of a folder to its end."""
    with (folder / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        Supervisor(folder).run()


if __name__ == "__main__":
    run_group(Path(sys.argv[1]))
