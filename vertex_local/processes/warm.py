"""The service's side of the warm process (`warm_process.py`), which forks supervisors of groups.

All requests go over one pair of UNIX sockets. A request is a message with the group's folder and,
as file descriptors, the supervisor's stdin, its log and a socket for the reply: pid and pidfd,
later the exit code. While the process is ready, the message READY stays unread at the service's
end.
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
    """Return the file descriptor of this process's client, for its children to inherit."""
    fd = os.environ.get(CLIENT_VARIABLE)
    return (int(fd),) if fd else ()


class WarmSupervisor:
    """A supervisor forked by the warm process, with the part of Popen's interface in use."""

    def __init__(self, pid: int, pidfd: int, reply: socket.socket) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self._reply = reply

    def wait(self) -> int:
        """Wait for its end; return its exit code, or -1 if the warm process ended before it."""
        select.select([self._pidfd], [], [])
        with self._reply, suppress(OSError):
            if code := self._reply.recv(16):
                return int(code)
        return -1

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def __del__(self) -> None:
        os.close(self._pidfd)
        self._reply.close()


class WarmClient:
    """Client of the warm process, in the service and in its children that start groups."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests

    @classmethod
    def inherited(cls) -> "WarmClient | None":
        """Return the client that this process has inherited; its children inherit none."""
        fd = os.environ.pop(CLIENT_VARIABLE, "")
        return cls(socket.socket(fileno=int(fd))) if fd else None

    @property
    def fd(self) -> int:
        """File descriptor for another process to inherit the client."""
        return self._requests.fileno()

    @property
    def is_ready(self) -> bool:
        """True if the warm process has imported its modules and is alive."""
        try:
            flags = socket.MSG_PEEK | socket.MSG_DONTWAIT
            return self._requests.recv(len(READY), flags) == READY
        except OSError:
            return False

    def fork_supervisor(
        self, folder: Path, *, stdin: int, log: int, is_client: bool
    ) -> WarmSupervisor | None:
        """Fork a supervisor for the group in `folder`; return None if that fails.

        With `is_client` the processes of the group inherit a client.
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
            ours.send(GO)  # until then the child waits
        except (OSError, ValueError, IndexError) as error:
            logger.warning(
                "the warm process did not fork, a new interpreter starts instead: %s", error
            )
            ours.close()
            return None
        ours.settimeout(None)
        return supervisor


class Warm(WarmClient):
    """The service's warm process: started in the background, restarted when it ends."""

    def __init__(
        self, modules: list[str], *, log_path: Path, closing: threading.Event | None = None
    ) -> None:
        ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(ours)
        self._modules = modules
        self._log_path = log_path
        self._closing = closing or threading.Event()  # set when the service ends
        self._is_closed = False
        self._has_failed = False
        self._process: subprocess.Popen[bytes] | None = None
        # A thread that lasts: PR_SET_PDEATHSIG kills the process with the thread that started it.
        self._thread = threading.Thread(target=self._keep, name="warm process", daemon=True)

    def start(self) -> None:
        """Start the process in the background."""
        self._thread.start()

    def await_ready(self, timeout_seconds: float) -> None:
        """Wait until the process is ready, has failed for good, or the time has passed."""
        deadline = time.monotonic() + timeout_seconds
        while not (self.is_ready or self._has_failed or time.monotonic() > deadline):
            if self._closing.wait(POLL_SECONDS):
                return

    def close(self) -> None:
        """End the process."""
        self._is_closed = True
        if self._process:
            self._process.kill()
        if self._thread.is_alive():
            self._thread.join(REPLY_TIMEOUT_SECONDS)
        self._theirs.close()
        self._requests.close()

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
            logger.info("restarting the warm process after %.0f s", time.monotonic() - began)
        self._has_failed = True
        logger.warning(
            "%s are not preloaded: every process starts as a new interpreter, more slowly; see %s",
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
        if self._is_closed:  # meanwhile, and `close` has not seen this process
            self._process.kill()
        code = self._process.wait()
        with suppress(BlockingIOError):
            self._requests.recv(len(READY), socket.MSG_DONTWAIT)
        return code
