"""Groups of processes that end together, and never outlive the service.

Each group has its own supervisor process (`supervisor.py`, started by `launch.py`). The service
sends it commands through a pipe, reads its state from FOLDER/state.json, and signals no other
process.
"""

import fcntl
import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from vertex_local import Json
from vertex_local.machine import docker as containers
from vertex_local.machine import system
from vertex_local.machine.children import STATE_FILE
from vertex_local.machine.files import remove_temp_dir, write_json
from vertex_local.processes.child import ProcessSpec as ProcessSpec  # noqa: PLC0414  exported
from vertex_local.processes.child import Replica
from vertex_local.processes.launch import SUPERVISOR_LOG, Launch, SupervisorProcess
from vertex_local.processes.supervisor import GROUP_FILE, LOCK_FILE, NO_SPACE

STOP_MARGIN_SECONDS = 15.0
ORPHANS_TIMEOUT_SECONDS = 10.0


class Group:
    """A running group; see `start`."""

    def __init__(self, folder: Path, launch: Launch, *, has_containers: bool = False) -> None:
        self.folder = folder
        self._has_containers = has_containers
        self._launch = launch
        self.supervisor: SupervisorProcess | None = None
        self._final: Json = {}
        self._has_ended = threading.Event()
        self._read_fd, write_fd = os.pipe()
        self._commands = open(write_fd, "wb", buffering=0)  # noqa: SIM115  until it has ended
        self._commands_lock = threading.Lock()
        threading.Thread(target=self._run, name=f"group {folder.name}", daemon=True).start()

    def state(self) -> Json:
        """Return the current state: `state`, `message` and `replicas` by name.

        `state` is running, succeeded, failed, cancelled or timed_out; it is running until the
        last process has ended.
        """
        return self._final or read_state(self.folder)

    def wait(self, timeout_seconds: float | None = None) -> Json:
        """Wait until every process has ended or the time has passed; return the state."""
        self._has_ended.wait(timeout_seconds)
        return self.state()

    def has_ended(self, timeout_seconds: float = 0.0) -> bool:
        """Wait as `wait` does; return whether every process has ended."""
        return self._has_ended.wait(timeout_seconds)

    def stop(self, grace_seconds: float = 10) -> Json:
        """End the group; return its state once every process has ended.

        Every process group gets SIGTERM, and SIGKILL after the grace period. A group that has
        already ended keeps its state.
        """
        self.request_stop(grace_seconds)
        if not self._has_ended.wait(grace_seconds + STOP_MARGIN_SECONDS):
            if self.supervisor:
                self.supervisor.kill()  # and with it the replicas
            self._has_ended.wait()
        return self.state()

    def request_stop(self, grace_seconds: float = 10) -> None:
        """Request the end of the group, as `stop` does, without waiting for it."""
        with self._commands_lock, suppress(OSError, ValueError):
            self._commands.write(f"stop {grace_seconds}\n".encode())

    def _run(self) -> None:
        system.become_subreaper()  # to end the processes of a killed supervisor
        try:
            self.supervisor = self._launch.start(self.folder, stdin=self._read_fd)
        except OSError as error:
            message = f"could not start: {error}"
            self._final = {"state": "failed", "message": message, "replicas": {}}
        finally:
            os.close(self._read_fd)
        if self.supervisor:
            code = self.supervisor.wait()
            # A supervisor was killed: this one, or one of a group that this group has started.
            if code or self._launch.starts_groups:
                system.end_orphans(self.folder, timeout_seconds=ORPHANS_TIMEOUT_SECONDS)
            remove_temp_dir(self.folder)  # in case the supervisor was killed
            if code and self._has_containers:
                containers.remove_group(self.folder)
            self._final = self._final_state(code)
        self._has_ended.set()
        with self._commands_lock:
            self._commands.close()

    def _final_state(self, code: int) -> Json:
        try:
            state = read_state(self.folder)
        except (OSError, ValueError) as error:
            return {
                "state": "failed",
                "message": f"its state cannot be read: {error}",
                "replicas": {},
            }
        if state["state"] == "running":
            for replica in state["replicas"].values():
                is_alive = replica["pid"] and not replica["ended"]
                if is_alive and not state.get("has_pid_namespace"):
                    system.end_adopted_group(replica["pid"])
            log = self.folder / SUPERVISOR_LOG
            message = f"its supervisor ended with code {code} before the processes did; see {log}"
            if code in NO_SPACE:
                message = f"its last state could not be written: {os.strerror(code)}; see {log}"
            return {**state, "state": "failed", "message": message}
        return state


def start(
    folder: Path,
    specs: list[ProcessSpec],
    *,
    timeout_seconds: float | None,
    has_private_network: bool = False,
    max_restarts: int = 0,
    restarts_whole_group: bool = False,
    launch: Launch = Launch(),  # noqa: B008  frozen
) -> Group:
    """Start a group in the background; its state is kept in `folder`.

    A process that cannot be started ends the group; the message of the state names it.

    On a private network, which nothing else can reach, processes reach each other on 127.0.0.1,
    containers by their host names. Lost processes (`restarts.py`) are restarted `max_restarts`
    times in total; every process with them, if one holds state or `restarts_whole_group`.

    Raises:
        ValueError: A command is empty.
        OSError: The folder cannot be written.
    """
    for spec in specs:
        if not spec.command or not spec.command[0]:
            raise ValueError(f"{spec.name} has no command: give a program and its arguments")
    folder.mkdir(parents=True, exist_ok=True)
    plan = {
        "timeout_seconds": timeout_seconds,
        "has_private_network": has_private_network,
        "max_restarts": max_restarts,
        "restarts_whole_group": restarts_whole_group,
    }
    _write_plan(folder / GROUP_FILE, specs, plan)
    replicas = {spec.name: Replica(**vars(spec), folder=folder).summary() for spec in specs}
    write_json(folder / STATE_FILE, {"state": "running", "message": "", "replicas": replicas})
    is_contained = any(spec.container for spec in specs)
    return Group(folder.resolve(), launch, has_containers=is_contained)


def read_state(folder: Path) -> Json:
    """Return the state of the group in a folder, which may be one of an earlier service."""
    state: Json = json.loads((folder / STATE_FILE).read_text())
    return state


def await_end(folder: Path, *, timeout_seconds: float) -> bool:
    """Wait for the supervisor that an earlier service left in `folder`; return whether it ended.

    It ends its group by itself once its service has ended.
    """
    deadline = time.monotonic() + timeout_seconds
    while (folder / LOCK_FILE).exists():
        with (folder / LOCK_FILE).open("a") as lock, suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _write_plan(path: Path, specs: list[ProcessSpec], plan: Json) -> None:
    cwd = os.getcwd()
    replicas = [
        {
            **asdict(spec),
            "cwd": spec.cwd or (None if spec.container else cwd),
            "log_path": str(spec.log_path.absolute()),
        }
        for spec in specs
    ]
    path.touch(mode=0o600)  # variables may hold secrets
    path.write_text(json.dumps({**plan, "replicas": replicas}))
