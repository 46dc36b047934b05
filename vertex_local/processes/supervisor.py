"""Supervisor process of one group: starts, restarts and ends its processes, and leaves none.

`python -m vertex_local.processes.supervisor FOLDER` starts the processes in FOLDER/group.json and
keeps FOLDER/state.json up to date (`group.py` writes the first and reads the second). The service
holds the write end of this process's stdin: the line `stop SECONDS` ends the group, and so does the
end of the file, at once, also if the service was killed. Imports only the standard library, so that
a group starts in about 50 ms.
"""

import errno
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

from vertex_local import Json
from vertex_local.machine import buckets, children, system
from vertex_local.machine import docker as containers
from vertex_local.machine.children import STATE_FILE
from vertex_local.machine.docker import Container
from vertex_local.machine.files import (
    GROUP_PREFIX,
    log_line,
    make_temp_dir,
    remove_temp_dir,
    write_json,
)
from vertex_local.processes.child import Replica
from vertex_local.processes.environments import layer
from vertex_local.processes.log_times import SAMPLE_SECONDS, LogClock
from vertex_local.processes.restarts import Restarts

GROUP_FILE = "group.json"
LOCK_FILE = "supervisor.lock"
INTERRUPTED = "interrupted: the service stopped"
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
INIT_KILLED = "the process with which its other processes end was killed"

END_GRACE_SECONDS = 3.0
CONTAINER_END_GRACE_SECONDS = 10.0  # `docker run` takes seconds to end on a busy machine
STRAYS_TIMEOUT_SECONDS = 10.0


class Supervisor:
    """Runner of the processes of a group, until one of the reasons to end the group occurs."""

    def __init__(self, folder: Path) -> None:
        plan = json.loads((folder / GROUP_FILE).read_text())
        self._folder = folder
        self._state_path = folder / STATE_FILE
        self._replicas = [_replica(folder, **values) for values in plan["replicas"]]
        self._log_clock = LogClock([replica.log_path for replica in self._replicas])
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
        self._write_error: OSError | None = None
        self._commands = b""
        self._stdin_is_open = True
        self._wake_fd = children.open_wake_fd()
        system.become_subreaper()
        children.restore_default_signals()
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def run(self) -> None:
        """Run the group to its end; write the final state once every process has ended."""
        self._wait_for_event(0)
        self._make_private_network()
        self._contain()
        self._protect_environments()
        self._temp_dir = make_temp_dir(self._folder, prefix=GROUP_PREFIX)
        self._start_replicas(self._replicas)
        while self._has_work():
            self._wait_for_event(min(SAMPLE_SECONDS, self._seconds_to_wait()))
            self._apply_deadlines()
            self._log_clock.record()
        system.kill_all_children(
            self._folder, init_pid=self._init_pid, timeout_seconds=STRAYS_TIMEOUT_SECONDS
        )
        if self._containers:
            containers.remove_group(self._folder)
        self._log_clock.record()
        remove_temp_dir(self._folder)
        for replica in self._replicas:
            if replica.state == "starting":
                replica.state = "ended"
        state, message = self._outcome or ("failed", "no process was started")
        if state == "failed" and self._write_error:
            message += f"\nIts state could not be written: {self._write_error}"
        self._write_state(state, message, is_final=True)

    @property
    def _containers(self) -> list[Container]:
        return [replica.container for replica in self._replicas if replica.container]

    @property
    def _end_grace_seconds(self) -> float:
        return CONTAINER_END_GRACE_SECONDS if self._containers else END_GRACE_SECONDS

    def _make_private_network(self) -> None:
        if self._outcome or not self._has_private_network:
            return
        try:
            if self._containers:
                containers.create_network(self._containers[0].root, self._folder)
            else:
                system.enter_private_network()
        except OSError as error:
            if self._containers:
                self._end("failed", f"a private network could not be created: {error}")
                return
            warning = (
                "other machines can reach the ports of the replicas, which need no password: "
                f"this system refuses a private network ({error}); allow network namespaces, or "
                "close the ports with a firewall"
            )
            log_line(warning)
            self._warnings.append(warning)

    def _contain(self) -> None:
        if self._outcome or self._containers:
            return
        try:
            self._init_pid = system.contain(self._folder)
        except OSError as error:
            log_line(f"no PID namespace: {error}; processes may survive if the service is killed")
        self._has_pid_namespace = self._init_pid > 0 and not system.IS_PORTABLE
        if self._has_pid_namespace:
            buckets.mount()

    def _protect_environments(self) -> None:
        """Make the Python environments read-only; processes write to their layers instead."""
        prefixes = {replica.environment for replica in self._replicas} - {""}
        if self._has_pid_namespace and prefixes:
            layer.protect({sys.prefix, *prefixes})

    def _has_work(self) -> bool:
        """Record the processes that have ended; return whether others run or will be restarted."""
        self._reap()
        self._settle_outcome()
        return any(replica.is_alive for replica in self._replicas) or self._restarts.is_planned

    def _start_replicas(self, replicas: list[Replica]) -> None:
        for replica in replicas:
            if self._outcome:
                return
            try:
                replica.start(self._temp_dir)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                replica.state = "failed"
                reason = replica.start_error_message(error)
                self._end("failed", f"{replica.name} could not start: {reason}")
            self._write_state()
            self._wait_for_event(0)

    def _settle_outcome(self) -> None:
        """Decide the outcome as soon as the exits so far determine it."""
        if self._outcome:
            return
        primary = [replica for replica in self._replicas if replica.is_primary]
        if not primary:
            primary = [replica for replica in self._replicas if not replica.is_service]
        if all(replica.exit_code == 0 for replica in primary):
            self._end("succeeded", "")
            return
        crashed = [replica for replica in self._replicas if replica.exit_code]
        if crashed and not self._can_restart(crashed):
            # The death of one replica makes others fail, so one that a signal killed is the cause.
            killed = [replica for replica in crashed if replica.killed_by]
            self._end("failed", (killed or crashed)[0].crash_message())

    def _can_restart(self, crashed: list[Replica]) -> bool:
        """Plan a restart of crashed replicas if they are lost; return whether one is planned."""
        if self._restarts.whole_group and self._restarts.is_planned:
            return True  # they fail because another was lost
        new = [replica for replica in crashed if replica.name not in self._restarts.names]
        if not new:
            return True
        is_whole = self._restarts.whole_group or any(r.holds_state for r in new)
        is_lost = any(r.is_lost for r in new) if is_whole else all(r.is_lost for r in new)
        if not is_lost or not self._restarts.is_allowed:
            return False
        self._plan_restart(self._replicas if is_whole else new)
        return True

    def _plan_restart(self, replicas: list[Replica]) -> None:
        self._restarts.plan({replica.name for replica in replicas}, moment=time.monotonic())
        self._signal(replicas, signal.SIGTERM)
        self._kill_at = min(self._kill_at, time.monotonic() + self._end_grace_seconds)

    def _restart(self) -> None:
        names = self._restarts.take_plan()
        self._kill_at = float("inf")
        replicas = [replica for replica in self._replicas if replica.name in names]
        for replica in replicas:
            replica.reset_for_restart()
        self._start_replicas(replicas)

    def _end(self, state: str, message: str, grace_seconds: float | None = None) -> None:
        """Send SIGTERM to every process, and SIGKILL after the grace period."""
        grace_seconds = self._end_grace_seconds if grace_seconds is None else grace_seconds
        self._outcome = self._outcome or (state, message)
        self._restarts.take_plan()
        self._kill_at = min(self._kill_at, time.monotonic() + grace_seconds)
        self._signal(self._replicas, signal.SIGTERM if grace_seconds > 0 else signal.SIGKILL)

    def _signal(self, replicas: list[Replica], number: signal.Signals) -> None:
        for replica in replicas:
            if replica.is_alive and replica.pid:
                children.signal_group(replica.pid, number)

    def _is_restart_blocked(self) -> bool:
        """Return whether a process of the planned restart has not ended yet."""
        return any(r.is_alive for r in self._replicas if r.name in self._restarts.names)

    def _seconds_to_wait(self) -> float:
        due = min(self._kill_at, self._deadline if self._outcome is None else float("inf"))
        if not self._is_restart_blocked():
            due = min(due, self._restarts.due)
        return max(0.0, due - time.monotonic())

    def _apply_deadlines(self) -> None:
        moment = time.monotonic()
        if moment >= self._kill_at:
            self._kill_at = float("inf")
            ending = [replica for replica in self._replicas if self._is_ending(replica)]
            self._signal(ending, signal.SIGKILL)
        if moment >= self._restarts.due and not self._is_restart_blocked():
            self._restart()
        if self._outcome is None and moment >= self._deadline:
            running = [replica.name for replica in self._replicas if replica.is_alive]
            verb = "was" if len(running) == 1 else "were"
            self._end(
                "timed_out",
                f"the job's timeout of {self._timeout_seconds:g} s passed; "
                f"{', '.join(running)} {verb} still running",
            )

    def _wait_for_event(self, timeout_seconds: float | None) -> None:
        """Wait for the end of a child, a command or end of file on stdin, or the timeout."""
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
                seconds = float(line.removeprefix(b"stop "))
                self._end("cancelled", "stopped on request", grace_seconds=seconds)

    def _on_signal(self, *_: object) -> None:
        self._end("cancelled", "the supervisor was stopped by a signal")

    def _reap(self) -> None:
        replicas = {r.pid: r for r in self._replicas if r.pid and r.is_alive}
        while dead := system.reap_next(replicas):
            replica = replicas.get(dead.pid)
            if dead.pid == self._init_pid:
                self._init_pid = 0
                self._end("failed", INIT_KILLED, grace_seconds=0)
            if replica:
                if replica.container and dead.code < 0:  # only `docker run` was killed
                    containers.remove(replica.container_name)
                replica.usage = dead.usage
                replica.record_exit(dead.code, was_requested=self._is_ending(replica))
                self._write_state()

    def _is_ending(self, replica: Replica) -> bool:
        return bool(self._outcome) or replica.name in self._restarts.names

    def _write_state(
        self, state: str = "running", message: str = "", *, is_final: bool = False
    ) -> None:
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
        except OSError as error:  # go on: a full disk must not leave processes
            if is_final:
                raise
            log_line(f"cannot write {self._state_path}: {error}")
            self._write_error = error


def _replica(folder: Path, *, container: Json | None, log_path: str, **values: Any) -> Replica:
    box = Container(**container) if container else None
    return Replica(**values, log_path=Path(log_path), folder=folder, container=box)


def run_group(folder: Path) -> None:
    """Run the group of a folder to its end; exit with an error's number if the disk is full."""
    try:
        with (folder / LOCK_FILE).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            Supervisor(folder).run()
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        log_line(str(error))
        sys.exit(error.errno)


if __name__ == "__main__":
    run_group(Path(sys.argv[1]))
