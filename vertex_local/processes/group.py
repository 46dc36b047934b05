"""Groups of processes that end together, and never outlive this service.

Each group has a supervisor process of its own (`supervisor.py`, started by `launch.py`); the
service talks to it through a pipe and reads what it writes to FOLDER/state.json. Nothing here
signals a pid but that of the supervisor.
"""

import fcntl
import json
import os
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from vertex_local.json_types import Json
from vertex_local.machine import docker as containers
from vertex_local.machine import linux
from vertex_local.machine.docker import Container
from vertex_local.machine.files import remove_temp_dir, write_json
from vertex_local.processes.launch import SUPERVISOR_LOG, Launch, SupervisorProcess
from vertex_local.processes.supervisor import GROUP_FILE, LOCK_FILE, STATE_FILE

STOP_MARGIN_SECONDS = 15.0
ORPHANS_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class ProcessSpec:
    """One process to run. `python` and `python3` mean the interpreter of this service.

    Attributes:
        name: How messages and state call it: `chief/0`.
        command: The program and its arguments; no shell is involved.
        env: Added to the service's own environment.
        cwd: The working directory; the service's own if None, the image's in a container.
        log_path: Where stdout and stderr are appended.
        is_primary: Its exit decides. Where no process is primary, all that are no service do.
        holds_state: The others cannot go on when it is lost: all are started again with it.
        cores: The only ones that it may run on; any if there are none.
        is_service: It is ended when the deciding ones have ended; that it ends early is no matter.
        container: What it runs in; this machine as it is, if None. There it has the environment of
            `env` alone, and the image's `python`.
        environment: The prefix of the Python environment that it gets a layer on, and that
            nothing of its group can change; none: it has the service's own Python as it is.
    """

    name: str
    command: list[str]
    env: dict[str, str]
    cwd: str | None
    log_path: Path
    is_primary: bool = False
    is_service: bool = False
    holds_state: bool = False
    cores: tuple[int, ...] = ()
    container: Container | None = None
    environment: str = ""


class Group:
    """A running group; `start` makes one."""

    def __init__(self, folder: Path, launch: Launch, *, has_containers: bool = False) -> None:
        self.folder = folder
        self._has_containers = has_containers
        self._launch = launch
        self._supervisor: SupervisorProcess | None = None
        self._final: Json = {}
        self._has_launched = threading.Event()
        self._has_ended = threading.Event()
        self._read_fd, write_fd = os.pipe()
        self._commands = open(write_fd, "wb", buffering=0)  # noqa: SIM115  until it has ended
        self._commands_lock = threading.Lock()
        threading.Thread(target=self._run, name=f"group {folder.name}", daemon=True).start()

    @property
    def pid(self) -> int:
        """The supervisor's, as soon as there is one; 0 if it could not be started."""
        self._has_launched.wait()
        return self._supervisor.pid if self._supervisor else 0

    def state(self) -> Json:
        """The group's state now: `state`, `message` and `replicas` by name.

        `state` is running, succeeded, failed, cancelled or timed_out; it is running until the
        last process is gone.
        """
        return self._final or read_state(self.folder)

    def wait(self, timeout_seconds: float | None = None) -> Json:
        """Waits until every process is gone or the time has passed, and returns the state."""
        self._has_ended.wait(timeout_seconds)
        return self.state()

    def has_ended(self, timeout_seconds: float = 0.0) -> bool:
        """Whether every process is gone, or is within the time."""
        return self._has_ended.wait(timeout_seconds)

    def stop(self, grace_seconds: float = 10) -> Json:
        """Ends the group and returns its state once all is gone.

        Every process group gets SIGTERM, and SIGKILL when the grace has passed. A group that has
        ended keeps its state.
        """
        self.request_stop(grace_seconds)
        if not self._has_ended.wait(grace_seconds + STOP_MARGIN_SECONDS):
            if self._supervisor:
                self._supervisor.kill()  # and with it, by PR_SET_PDEATHSIG, the replicas
            self._has_ended.wait()
        return self.state()

    def request_stop(self, grace_seconds: float = 10) -> None:
        """Begins what `stop` does and does not wait for it."""
        with self._commands_lock, suppress(OSError, ValueError):
            self._commands.write(f"stop {grace_seconds}\n".encode())

    def _run(self) -> None:
        linux.become_subreaper()  # so that it can end what a killed supervisor leaves behind
        try:
            self._supervisor = self._launch.start(self.folder, stdin=self._read_fd)
        except OSError as error:
            message = f"could not start: {error}"
            self._final = {"state": "failed", "message": message, "replicas": {}}
        finally:
            os.close(self._read_fd)
            self._has_launched.set()
        if self._supervisor:
            code = self._supervisor.wait()
            if code or self._launch.starts_groups:  # in which a supervisor may have been killed
                linux.reap_orphans(timeout_seconds=ORPHANS_TIMEOUT_SECONDS)
            remove_temp_dir(self.folder)  # a supervisor that was killed has not
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
            return {"state": "failed", "message": f"its state is lost: {error}", "replicas": {}}
        if state["state"] == "running":
            for replica in state["replicas"].values():
                is_left = replica["pid"] and not replica["ended"]
                if is_left and not state.get("has_pid_namespace"):
                    linux.end_adopted_group(replica["pid"])
            log = self.folder / SUPERVISOR_LOG
            message = f"its supervisor ended with code {code} before the processes did; see {log}"
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
    records_usage: bool = False,
    launch: Launch = Launch(),  # noqa: B008  frozen
) -> Group:
    """Starts a group whose state lives in `folder`, and returns at once.

    A process that cannot be started ends the group: `state()` says which, and why. With a private
    network the processes reach each other on 127.0.0.1, containers by their host names, and nobody
    else reaches them. A process
    that is lost (`restarts.py`) is started again, the whole group if that is asked for or if the
    lost one holds its state; `max_restarts` times in all. With `records_usage` the folder also
    gets the CPU and memory of each process over time (`usage.curve`).

    Raises:
        ValueError: two processes of one name, an empty command, or nothing but services.
        OSError: the folder cannot be written.
    """
    _check(specs)
    folder.mkdir(parents=True, exist_ok=True)
    plan = {
        "timeout_seconds": timeout_seconds,
        "has_private_network": has_private_network,
        "max_restarts": max_restarts,
        "restarts_whole_group": restarts_whole_group,
        "records_usage": records_usage,
    }
    _write_plan(folder / GROUP_FILE, specs, plan)
    replica: Json = {
        "pid": None,
        "state": "starting",
        "exit_code": None,
        "started": "",
        "ended": "",
        "restarts": 0,
    }
    replicas = {spec.name: replica for spec in specs}
    write_json(folder / STATE_FILE, {"state": "running", "message": "", "replicas": replicas})
    is_contained = any(spec.container for spec in specs)
    return Group(folder.resolve(), launch, has_containers=is_contained)


def read_state(folder: Path) -> Json:
    """The state that a group's folder tells, also after a restart of the service."""
    state: Json = json.loads((folder / STATE_FILE).read_text())
    return state


def await_end(folder: Path, *, timeout_seconds: float) -> bool:
    """Waits until no supervisor is at work in `folder`, and removes what it left in TMPDIR.

    For groups of an earlier service.

    Such a supervisor ends its group by itself as soon as its service is gone.
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


def _check(specs: list[ProcessSpec]) -> None:
    names = [spec.name for spec in specs]
    if len(set(names)) < len(names):
        raise ValueError(f"process names must differ, and these do not: {', '.join(names)}")
    for spec in specs:
        if not spec.command or not spec.command[0]:
            raise ValueError(f"{spec.name} has no command: give a program and its arguments")
    if all(spec.is_service for spec in specs):
        raise ValueError("at least one process must not be a service: the group ends with it")


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
    path.touch(mode=0o600)  # environments may hold secrets
    path.write_text(json.dumps({**plan, "replicas": replicas}))
