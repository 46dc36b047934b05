"""The warm process: imports modules once, then forks a supervisor for each request.

`python -m vertex_local.processes.warm_process SOCKET,… PARENT MODULE,… …`; `warm.py` starts it and
sends the requests. There is a socket for each list of modules. The process of a list forks the
next list's, which imports further modules, and ends with it. Each has one thread and no port, calls
nothing that it has imported, and is killed when the service ends.
"""

import gc
import importlib
import json
import os
import select
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from vertex_local.machine import children, linux
from vertex_local.machine.files import log_line
from vertex_local.processes import forking, programs, supervisor
from vertex_local.processes.forking import Baseline, ForkSpec
from vertex_local.processes.warm import EXIT_CANNOT, EXIT_STALE, GO, READY, client_environment

MAX_REQUEST_BYTES = 65536
NUM_REQUEST_FDS = 16
# A fork starts these again, and they hold no lock of the program while they sleep.
SAFE_THREADS = {"jemalloc_bg_thd"}
# Of later stages' imports: what the service has begun with the first stage comes before them.
LATER_NICENESS = 10


class ForkServer:
    """Forks supervisors on request and reports their exit codes."""

    def __init__(
        self, requests: socket.socket, preloaded: programs.Preloaded, *, next_pid: int
    ) -> None:
        self._requests = requests
        self._preloaded = preloaded
        self._next_pid = next_pid  # of the next stage; 0 if this is the last
        self._replies: dict[int, socket.socket] = {}
        self._wake_fd = children.open_wake_fd()

    def serve(self) -> None:
        """Serve requests until the files of the modules have changed."""
        self._requests.setblocking(False)
        self._requests.send(READY)
        self._report_ends()  # of the next stage, before this process could notice
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
        """Fork a supervisor; `fds` are its stdin, log, reply socket and perhaps a client's."""
        reply_fd = fds[2]
        if not self._preloaded.is_current:
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
            code = children.reap(pid)
            if pid == self._next_pid:
                sys.exit(code if code > 0 else 1)
            with suppress(OSError), self._replies.pop(pid) as reply:
                reply.send(str(code).encode())


def _supervise(folder: str, reply_fd: int, client_fds: list[int]) -> None:
    """Run a group, once the client has confirmed that it has the pid."""
    if os.read(reply_fd, len(GO)) != GO:
        os._exit(0)
    os.close(reply_fd)
    os.environ.update(client_environment(client_fds))
    supervisor.run_group(Path(folder))
    os._exit(0)  # skips the exit handlers of modules that this process has not used


def _import(modules: list[str], *, niceness: int) -> None:
    if niceness:
        linux.set_session_niceness(niceness)
    for name in modules:
        try:
            _import_in_thread(name, niceness=niceness)
        except Exception as error:
            _log(f"{name} cannot be imported: {type(error).__name__}: {error}")
            sys.exit(EXIT_CANNOT)
        if threads := _threads():
            _log(f"importing {name} starts threads: {', '.join(sorted(threads))}")
            sys.exit(EXIT_CANNOT)
    if niceness:
        linux.set_session_niceness(0)


def _import_in_thread(name: str, *, niceness: int) -> None:
    """Import a module in a thread of its own: a process could not end its niceness (nice(2))."""

    def run() -> Path:
        os.nice(niceness)
        importlib.import_module(name)
        return Path(f"/proc/self/task/{threading.get_native_id()}")

    with ThreadPoolExecutor(1) as pool:
        thread = pool.submit(run).result()
    for _ in range(1000):  # for Python it has ended before it does for the kernel
        if not thread.exists():
            return
        time.sleep(0.001)


def _threads() -> set[str]:
    """Return the names of other threads, which a fork would not have.

    Forks once before it looks: the threads of OpenBLAS end before a fork and start when needed.
    """
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    paths = [path for path in Path("/proc/self/task").iterdir() if path.name != str(os.getpid())]
    return {(path / "comm").read_text().strip() for path in paths} - SAFE_THREADS


def _log(line: str) -> None:
    log_line(f"{time.strftime('%H:%M:%S')} {line}")


def _begin(sockets: list[socket.socket], stages: list[list[str]]) -> tuple[socket.socket, int]:
    """Import the modules of each stage in a process of its own, a fork of the one before.

    Return in each process its socket, and the pid of the next one, 0 in the last.
    """
    for number, modules in enumerate(stages):
        _import(modules, niceness=LATER_NICENESS if number else 0)
        _log(f"ready: {', '.join(modules)}")
        here, is_last = os.getpid(), number == len(stages) - 1
        next_pid = 0 if is_last else os.fork()
        if is_last or next_pid:
            for later in sockets[number + 1 :]:
                later.close()
            return sockets[number], next_pid
        linux.die_with(here)
        sockets[number].close()
    raise ValueError("there are no modules to import")


def main() -> None:
    """Import the modules, then serve the sockets; both are named on the command line."""
    gc.disable()  # while modules are imported hardly an object is garbage
    fds, parent, *stages = sys.argv[1:]
    linux.die_with(int(parent))
    children.restore_default_signals()
    if not sys.flags.safe_path:
        del sys.path[0]  # a program's own folder takes this place (`Program.run`)
    sockets = [socket.socket(fileno=int(fd)) for fd in fds.split(",")]
    requests, next_pid = _begin(sockets, [modules.split(",") for modules in stages])
    baseline = Baseline.capture(without={requests.fileno()})
    programs.PRELOADED = preloaded = programs.Preloaded.capture()
    gc.freeze()  # a collection in a fork would copy shared pages
    gc.enable()
    server = ForkServer(requests, preloaded, next_pid=next_pid)
    forking.run_to_end(server.serve, baseline)


if __name__ == "__main__":
    main()
