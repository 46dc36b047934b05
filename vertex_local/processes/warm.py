"""Keeps a warm process (`warm_process.py`) and has it fork supervisors of groups.

Everything goes over one pair of UNIX sockets. A request is a message with the group's folder and,
as file descriptors, the supervisor's stdin, its log and a socket for the answer: pid and pidfd,
later the exit code. As long as the process can answer, READY lies unread in the service's end.
"""

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

CLIENT_VARIABLE = "VERTEX_LOCAL_WARM_FD"
READY, GO = b"ready", b"g"
REPLY_TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.05
EXIT_CANNOT, EXIT_STALE = 3, 4
MAX_DEATHS = 3


def inherited_fds() -> tuple[int, ...]:
    """What a process that was given a client passes on to those that it starts."""
    fd = os.environ.get(CLIENT_VARIABLE)
    return (int(fd),) if fd else ()


class WarmSupervisor:
    """A supervisor that the warm process has forked; what of Popen is needed of it."""

    def __init__(self, pid: int, pidfd: int, reply: socket.socket) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self._reply = reply

    def wait(self) -> int:
        """Its exit code; -1 if the warm process, which alone knows, has died before it."""
        select.select([self._pidfd], [], [])
        with self._reply, suppress(OSError):
            if code := self._reply.recv(16):
                return int(code)
        return -1

    def kill(self) -> None:
        """Kills it; harmless if it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def __del__(self) -> None:
        os.close(self._pidfd)


class WarmClient:
    """Asks the warm process; the service and those of its children that start groups have one."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests

    @classmethod
    def inherited(cls) -> "WarmClient | None":
        """The client of a process that was started to have one; those it starts have none."""
        fd = os.environ.pop(CLIENT_VARIABLE, "")
        return cls(socket.socket(fileno=int(fd))) if fd else None

    @property
    def fd(self) -> int:
        """The file descriptor with which another process can have such a client."""
        return self._requests.fileno()

    @property
    def is_ready(self) -> bool:
        """Whether the warm process has imported everything and lives."""
        try:
            flags = socket.MSG_PEEK | socket.MSG_DONTWAIT
            return self._requests.recv(len(READY), flags) == READY
        except OSError:
            return False

    def fork_supervisor(
        self, folder: Path, *, stdin: int, log: int, is_client: bool
    ) -> WarmSupervisor | None:
        """A supervisor for the group in `folder`; None if the process cannot fork one.

        `is_client` lets the group's processes have a client of their own.
        """
        if not self.is_ready:
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                fds = [stdin, log, theirs.fileno(), *([self.fd] if is_client else [])]
                request = json.dumps({"folder": str(folder)}).encode()
                socket.send_fds(self._requests, [request], fds, socket.MSG_DONTWAIT)
            ours.settimeout(REPLY_TIMEOUT_SECONDS)
            pid, pidfds, _, _ = socket.recv_fds(ours, 16, 1)
            supervisor = WarmSupervisor(int(pid), pidfds[0], ours)
            ours.send(GO)  # without it the child ends
        except (OSError, ValueError, IndexError) as error:
            logger.warning("the warm process did not fork: %s", error)
            ours.close()
            return None
        ours.settimeout(None)
        return supervisor


class Warm(WarmClient):
    """The service's warm process: started in the background, replaced when it dies."""

    def __init__(
        self, modules: list[str], *, log_path: Path, closing: threading.Event | None = None
    ) -> None:
        ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(ours)
        self._modules = modules
        self._log_path = log_path
        self._closing = closing or threading.Event()  # of the service: nobody waits from then on
        self._is_closed = False
        self._has_given_up = False
        self._process: subprocess.Popen[bytes] | None = None
        # It lives as long as the service: the process dies with the thread that started it.
        self._thread = threading.Thread(target=self._keep, name="warm process", daemon=True)

    def start(self) -> None:
        """Starts the process and returns at once."""
        self._thread.start()

    def await_ready(self, timeout_seconds: float) -> None:
        """Returns when the process is ready, never will be, or the time has passed."""
        deadline = time.monotonic() + timeout_seconds
        while not (self.is_ready or self._has_given_up or time.monotonic() > deadline):
            if self._closing.wait(POLL_SECONDS):
                return

    def close(self) -> None:
        """Ends the process."""
        self._is_closed = True
        if self._process:
            self._process.kill()

    def _keep(self) -> None:
        num_deaths = 0
        while num_deaths < MAX_DEATHS and not self._is_closed:
            began = time.monotonic()
            code = self._run()
            if self._is_closed:
                return
            if code == EXIT_CANNOT:
                break
            if code != EXIT_STALE:
                num_deaths += 1
                logger.warning("the warm process ended with code %d; see %s", code, self._log_path)
            logger.info("the warm process is replaced after %.0f s", time.monotonic() - began)
        self._has_given_up = True
        logger.warning(
            "%s are not preloaded, and every process is started anew; see %s",
            ", ".join(self._modules),
            self._log_path,
        )

    def _run(self) -> int:
        with self._log_path.open("ab") as log:
            fd = self._theirs.fileno()
            module = "vertex_local.processes.warm_process"
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(fd), str(os.getpid()), *self._modules],
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[fd],
                start_new_session=True,
            )
        code = self._process.wait()
        with suppress(BlockingIOError):
            self._requests.recv(len(READY), socket.MSG_DONTWAIT)
        return code
