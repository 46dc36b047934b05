"""The warm process: imports modules once, then forks a supervisor for each request.

`python -m vertex_local.processes.warm_process SOCKET,… PARENT MODULE,… …`; `warm.py` starts it and
sends the requests. There is a socket for each list of modules. The process of a list forks the
next list's, which imports further modules, and ends with it. Each has one thread and no port, calls
nothing that it has imported, and is killed when the service ends.
"""

import gc
import importlib
import os
import select
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from vertex_local.machine import children, linux
from vertex_local.machine.files import log_line
from vertex_local.processes import forking, supervisor
from vertex_local.processes.forking import ForkSpec, Preloaded
from vertex_local.processes.warm import EXIT_CANNOT, EXIT_STALE, GO, READY, client_environment

MAX_REQUEST_BYTES = 65536
NUM_REQUEST_FDS = 16
THREAD_END_SECONDS = 2.0
# A fork starts these again, and they hold no lock of the program while they sleep.
SAFE_THREADS = {"jemalloc_bg_thd"}
# Of later stages' imports: what the service has begun with the first stage comes before them.
LATER_NICENESS = 10


def serve(requests: socket.socket, preloaded: Preloaded, *, next_pid: int) -> NoReturn:
    """Fork supervisors on request, and report their exit codes, until a module's file has changed.

    Ends with `next_pid`, the process of the next stage, too; 0 if this is the last.
    """
    replies: dict[int, socket.socket] = {}
    wake_fd = children.open_wake_fd()
    requests.setblocking(False)
    requests.send(READY)
    sources: list[Any] = [requests, wake_fd]
    while True:
        while pid := linux.next_dead_child():
            code = children.reap(pid)
            if pid == next_pid:
                sys.exit(code if code > 0 else 1)
            with suppress(OSError), replies.pop(pid) as reply:
                reply.send(str(code).encode())
        ready, _, _ = select.select(sources, [], [])
        if wake_fd in ready:
            os.read(wake_fd, 4096)
        if requests in ready:
            with suppress(BlockingIOError):
                folder, fds, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, NUM_REQUEST_FDS)
                if not preloaded.is_current:
                    _give_up(EXIT_STALE, "files of imported modules have changed: importing again")
                pid, reply = _fork(Path(os.fsdecode(folder)), fds)
                replies[pid] = reply


def _fork(folder: Path, fds: list[int]) -> tuple[int, socket.socket]:
    """Fork a supervisor; `fds` are its stdin, log, reply socket and perhaps a client's."""
    stdin, log, reply_fd, *client_fds = fds

    def run() -> None:
        if os.read(reply_fd, len(GO)) != GO:  # the client does not know this process
            os._exit(0)
        os.close(reply_fd)
        os.environ.update(client_environment(client_fds))
        supervisor.run_group(folder)
        os._exit(0)  # skips the exit handlers of modules that this process has not used

    pid = forking.fork(ForkSpec(run=run, stdin=stdin, output=log, kept=(reply_fd, *client_fds)))
    for fd in (stdin, log, *client_fds):
        os.close(fd)
    reply = socket.socket(fileno=reply_fd)
    with suppress(OSError):  # the client has gone; the child finds that out as well
        pidfd = os.pidfd_open(pid)
        socket.send_fds(reply, [str(pid).encode()], [pidfd])
        os.close(pidfd)
    return pid, reply


def _import(modules: list[str], *, niceness: int) -> None:
    if niceness:
        linux.set_session_niceness(niceness)
    for name in modules:
        # In a thread of its own: a process could not end its niceness (nice(2)).
        with ThreadPoolExecutor(1, initializer=os.nice, initargs=(niceness,)) as pool:
            error = pool.submit(importlib.import_module, name).exception()
        if error:
            _give_up(EXIT_CANNOT, f"{name} cannot be imported: {type(error).__name__}: {error}")
        if threads := _threads():
            _give_up(EXIT_CANNOT, f"importing {name} starts threads: {', '.join(sorted(threads))}")
    if niceness:
        linux.set_session_niceness(0)


def _threads() -> set[str]:
    """Return the names of other threads, which a fork would not have.

    Forks once before it looks: the threads of OpenBLAS end before a fork and start when needed.
    Those that have ended for Python end for the kernel a little later.
    """
    pid = os.fork()
    if not pid:
        os._exit(0)
    children.reap(pid)
    deadline = time.monotonic() + THREAD_END_SECONDS
    while True:
        names = set[str]()
        for path in Path("/proc/self/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                if path.name != str(os.getpid()):
                    names.add((path / "comm").read_text().strip())
        names -= SAFE_THREADS
        if not names or time.monotonic() > deadline:
            return names
        time.sleep(0.001)


def _log(line: str) -> None:
    log_line(f"{time.strftime('%H:%M:%S')} {line}")


def _give_up(code: int, reason: str) -> NoReturn:
    _log(reason)
    sys.exit(code)


def main() -> None:
    """Import the modules of each stage in a fork of the stage before, and serve its socket."""
    gc.disable()  # while modules are imported hardly an object is garbage; forks enable it
    fds, parent, *stages = sys.argv[1:]
    linux.die_with(int(parent))
    children.restore_default_signals()
    if not sys.flags.safe_path:
        del sys.path[0]  # a program's own folder takes this place (`Program.run`)
    requests, *later = [socket.socket(fileno=int(fd)) for fd in fds.split(",")]
    next_pid = niceness = 0
    for modules in stages:
        _import(modules.split(","), niceness=niceness)
        _log(f"ready: {modules}")
        here, niceness = os.getpid(), LATER_NICENESS
        next_pid = os.fork() if later else 0
        if next_pid or not later:
            break
        linux.die_with(here)
        requests.close()
        requests = later.pop(0)
    for other in later:
        other.close()
    forking.PRELOADED = Preloaded.capture(without={requests.fileno()})
    serve(requests, forking.PRELOADED, next_pid=next_pid)


if __name__ == "__main__":
    main()
