"""The warm process: imports modules once, then forks a supervisor for each request.

`python -m vertex_local.processes.warm_process SOCKET PARENT MODULE…`; `warm.py` starts it and sends
the requests. It has one thread and no port, calls nothing that it has imported, and is killed when
the service ends.
"""

import gc
import importlib
import json
import os
import select
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from vertex_local.machine import linux
from vertex_local.processes import forking, programs, supervisor
from vertex_local.processes.forking import Baseline, ForkSpec
from vertex_local.processes.warm import CLIENT_VARIABLE, EXIT_CANNOT, EXIT_STALE, GO, READY

MAX_REQUEST_BYTES = 65536
NUM_REQUEST_FDS = 4
# A fork starts these again, and they hold no lock of the program while they sleep.
SAFE_THREADS = {"jemalloc_bg_thd"}


class ForkServer:
    """Forks supervisors on request and reports their exit codes."""

    def __init__(self, requests: socket.socket, preloaded: programs.Preloaded) -> None:
        self._requests = requests
        self._preloaded = preloaded
        self._replies: dict[int, socket.socket] = {}
        self._wake_fd = linux.open_wake_fd()

    def serve(self) -> None:
        """Serve requests until the files of the modules have changed."""
        self._requests.setblocking(False)
        self._requests.send(READY)
        while True:
            sources = [self._requests.fileno(), self._wake_fd]
            ready, _, _ = select.select(sources, [], [])
            if self._wake_fd in ready:
                os.read(self._wake_fd, 4096)
                self._report_ends()
            if self._requests.fileno() in ready:
                with suppress(BlockingIOError):
                    request, fds, _, _ = socket.recv_fds(
                        self._requests, MAX_REQUEST_BYTES, NUM_REQUEST_FDS
                    )
                    self._fork(json.loads(request), fds)

    def _fork(self, request: dict[str, str], fds: list[int]) -> None:
        """Fork a supervisor; `fds` are its stdin, log, reply socket and perhaps `requests`."""
        reply_fd = fds[2]
        if not self._preloaded.files.are_unchanged():
            _log("files of imported modules have changed: restarting to import them again")
            sys.exit(EXIT_STALE)
        pid = forking.fork(
            ForkSpec(
                run=lambda: _supervise(request["folder"], reply_fd, fds[3:]),
                stdin=fds[0],
                output=fds[1],
                kept=tuple(fds[2:]),
            )
        )
        reply = socket.socket(fileno=reply_fd)
        for fd in (*fds[:2], *fds[3:]):
            os.close(fd)
        with suppress(OSError):  # the client has gone; the child finds that out as well
            pidfd = os.pidfd_open(pid)
            socket.send_fds(reply, [str(pid).encode()], [pidfd])
            os.close(pidfd)
        self._replies[pid] = reply

    def _report_ends(self) -> None:
        while pid := linux.next_dead_child():
            code = linux.reap(pid)
            with suppress(OSError), self._replies.pop(pid) as reply:
                reply.send(str(code).encode())


def _supervise(folder: str, reply_fd: int, client_fds: list[int]) -> None:
    """Run a group, once the client has confirmed that it has the pid."""
    if os.read(reply_fd, len(GO)) != GO:
        os._exit(0)
    os.close(reply_fd)
    if client_fds:
        os.environ[CLIENT_VARIABLE] = str(client_fds[0])
    supervisor.run_group(Path(folder))
    os._exit(0)  # skips the exit handlers of modules that this process has not used


def _import(modules: list[str]) -> None:
    """Import modules; exit if one cannot be imported or starts a thread."""
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:
            _log(f"{name} cannot be imported: {type(error).__name__}: {error}")
            sys.exit(EXIT_CANNOT)
        if threads := _threads():
            _log(f"importing {name} starts threads: {', '.join(sorted(threads))}")
            sys.exit(EXIT_CANNOT)


def _threads() -> set[str]:
    """Return the names of other threads, which a fork would not have.

    Forks once before it looks: the threads of OpenBLAS end before a fork and start when needed.
    """
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    others = [path for path in Path("/proc/self/task").iterdir() if path.name != str(os.getpid())]
    return {(path / "comm").read_text().strip() for path in others} - SAFE_THREADS


def _log(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")


def main() -> None:
    """Import the modules, then serve the socket; both are named on the command line."""
    socket_fd, parent, *modules = sys.argv[1:]
    linux.die_with(int(parent))
    linux.restore_default_signals()
    if not sys.flags.safe_path:
        del sys.path[0]  # a program's own folder takes this place (`Program.run`)
    _import(modules)
    _log(f"ready: {', '.join(modules)}")
    requests = socket.socket(fileno=int(socket_fd))
    baseline = Baseline.capture(without={requests.fileno()})
    programs.PRELOADED = preloaded = programs.Preloaded.capture()
    gc.collect()
    gc.freeze()  # a collection in a fork would copy shared pages
    forking.run_to_end(lambda: ForkServer(requests, preloaded).serve(), baseline)


if __name__ == "__main__":
    main()
