"""The service's side of the warm processes (`warm_process.py`), which fork supervisors of groups.

There is one for each stage of imports: each has the modules of the stages before it, so that light
processes need not wait for those that import for long. Requests go over a pair of UNIX sockets for
each. A request is a message with the group's folder and, as file descriptors, the supervisor's
stdin, its log and a socket for the reply: pid and pidfd, later the exit code. While the process is
ready, the message READY stays unread at the service's end.

The standard library's forkserver could start the supervisors, but not the replicas, which are their
supervisor's children. It has no stages, waits for imports, hides their errors, and outlives the
service while a child lives.
"""

import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

CLIENT_VARIABLE = "VERTEX_LOCAL_WARM_FDS"
READY, GO = b"ready", b"g"
REPLY_TIMEOUT_SECONDS = 10.0
POLL_SECONDS = 0.05
EXIT_CANNOT, EXIT_STALE = 3, 4
MAX_DEATHS = 3


def inherited_fds() -> tuple[int, ...]:
    """Return the file descriptors of this process's client, for its children to inherit."""
    return tuple(map(int, os.environ.get(CLIENT_VARIABLE, "").split()))


def client_environment(fds: Iterable[int]) -> dict[str, str]:
    """Return the variable that names the file descriptors of a client; none if there are none."""
    text = " ".join(map(str, fds))
    return {CLIENT_VARIABLE: text} if text else {}


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
    """Client of the warm processes, in the service and in its children that start groups."""

    def __init__(self, requests: Sequence[socket.socket]) -> None:
        self._requests = requests  # by stage

    @classmethod
    def inherited(cls) -> "WarmClient | None":
        """Return the client that this process has inherited; its children inherit none."""
        fds = inherited_fds()
        os.environ.pop(CLIENT_VARIABLE, "")
        return cls([socket.socket(fileno=fd) for fd in fds]) if fds else None

    @property
    def fds(self) -> list[int]:
        """File descriptors for another process to inherit the client."""
        return [requests.fileno() for requests in self._requests]

    @property
    def is_ready(self) -> bool:
        """True if the process of the last stage has imported its modules and is alive."""
        return _is_ready(self._requests[-1])

    @property
    def is_begun(self) -> bool:
        """True if the process of any stage has imported its modules and is alive."""
        return any(map(_is_ready, self._requests))

    def fork_supervisor(
        self, folder: Path, *, stdin: int, log: int, is_client: bool, is_light: bool
    ) -> WarmSupervisor | None:
        """Fork a supervisor for the group in `folder`; return None if that fails.

        It has the modules of the last stage that is ready, with `is_light` of the first. With
        `is_client` the processes of the group inherit a client.
        """
        ready = [requests for requests in self._requests if _is_ready(requests)]
        if not ready:
            return None
        near_end, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with far_end:
                fds = [stdin, log, far_end.fileno(), *(self.fds if is_client else [])]
                stage = ready[0 if is_light else -1]
                socket.send_fds(stage, [os.fsencode(folder)], fds, socket.MSG_DONTWAIT)
            near_end.settimeout(REPLY_TIMEOUT_SECONDS)
            pid, pidfds, _, _ = socket.recv_fds(near_end, 16, 1)
            supervisor = WarmSupervisor(int(pid), pidfds[0], near_end)
            near_end.send(GO)  # until then the child waits
        except (OSError, ValueError, IndexError) as error:
            logger.warning(
                "the warm process did not fork, a new interpreter starts instead: %s", error
            )
            near_end.close()
            return None
        near_end.settimeout(None)
        return supervisor


def _is_ready(requests: socket.socket) -> bool:
    try:
        flags = socket.MSG_PEEK | socket.MSG_DONTWAIT
        return requests.recv(len(READY), flags) == READY
    except OSError:
        return False


class Warm(WarmClient):
    """The service's warm processes: started in the background, restarted when one ends.

    `stages` are the modules to import; `closing` is set when the service ends.
    """

    def __init__(
        self,
        stages: Sequence[Sequence[str]],
        *,
        log_path: Path,
        closing: threading.Event | None = None,
    ) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in stages]
        super().__init__([ours for ours, _ in pairs])
        self._theirs = [theirs for _, theirs in pairs]
        self._stages = [",".join(modules) for modules in stages]
        self._log_path = log_path
        self._closing = closing or threading.Event()
        self._has_failed = False
        self.process: subprocess.Popen[bytes] | None = None
        # A thread that lasts: PR_SET_PDEATHSIG kills the process with the thread that started it.
        self._thread = threading.Thread(target=self._keep, name="warm process", daemon=True)

    def start(self) -> None:
        """Start the processes in the background."""
        self._thread.start()

    def await_ready(self, timeout_seconds: float, *, any_stage: bool = False) -> None:
        """Wait until the last or any stage is ready, they have failed, or the time has passed."""
        deadline = time.monotonic() + timeout_seconds
        while not (self._has_failed or time.monotonic() > deadline):
            is_ready = self.is_begun if any_stage else self.is_ready
            if is_ready or self._closing.wait(POLL_SECONDS):
                return

    def close(self) -> None:
        """End the processes."""
        self._closing.set()
        if self.process:
            self.process.kill()
        if self._thread.is_alive():
            self._thread.join(REPLY_TIMEOUT_SECONDS)
        for end in (*self._theirs, *self._requests):
            end.close()

    def _keep(self) -> None:
        num_deaths = 0
        while num_deaths < MAX_DEATHS and not self._closing.is_set():
            began = time.monotonic()
            code = self._run()
            if self._closing.is_set():
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
            ", ".join(self._stages),
            self._log_path,
        )

    def _run(self) -> int:
        """Run the process of the first stage, which forks the next stage's, to its end."""
        fds = [theirs.fileno() for theirs in self._theirs]
        with self._log_path.open("ab") as log:
            module = "vertex_local.processes.warm_process"
            sockets = ",".join(map(str, fds))
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, sockets, str(os.getpid()), *self._stages],
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=fds,
                start_new_session=True,
            )
        if self._closing.is_set():  # meanwhile, and `close` has not seen this process
            self.process.kill()
        code = self.process.wait()
        for requests in self._requests:
            with suppress(BlockingIOError):
                requests.recv(len(READY), socket.MSG_DONTWAIT)
        return code
