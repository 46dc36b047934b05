"""The warm process: imports modules once, then forks a supervisor for each group that asks.

`python -m vertex_local.processes.warm_process SOCKET PARENT MODULE…`; `warm.py` starts it and asks
it. It has one thread and no port, runs nothing of what it has imported, and dies with the service.
"""

import atexit
import ctypes
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
from vertex_local.processes.forking import Birth, Origin
from vertex_local.processes.warm import CLIENT_VARIABLE, EXIT_CANNOT, EXIT_STALE, GO, READY

MAX_REQUEST_BYTES = 65536
NUM_REQUEST_FDS = 4
# They are made again in a fork, and hold no lock of the program's while they sleep.
SAFE_THREADS = {"jemalloc_bg_thd"}


class WarmProcess:
    """Forks on request and reports how its children end."""

    def __init__(self, requests: socket.socket, image: programs.Image) -> None:
        self._requests = requests
        self._image = image
        self._replies: dict[int, socket.socket] = {}
        self._wake_fd = linux.open_wake_fd()

    def serve(self) -> None:
        """Answers requests until the modules have changed on disk."""
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
                    self._answer(json.loads(request), fds)

    def _answer(self, request: dict[str, str], fds: list[int]) -> None:
        """Forks a supervisor; `fds` are its stdin, its log, the reply's, and perhaps `requests`."""
        reply_fd = fds[2]
        if not self._image.is_current():
            _say("what was imported has changed on disk: importing it anew")
            sys.exit(EXIT_STALE)
        pid = forking.fork(
            Birth(
                run=lambda: _supervise(request["folder"], reply_fd, fds[3:]),
                stdin=fds[0],
                output=fds[1],
                kept=tuple(fds[2:]),
            )
        )
        reply = socket.socket(fileno=reply_fd)
        for fd in (*fds[:2], *fds[3:]):
            os.close(fd)
        with suppress(OSError):  # nobody waits any more; the child sees it, too
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
    """Runs a group, once whoever asked for it has said so."""
    if os.read(reply_fd, len(GO)) != GO:
        os._exit(0)
    os.close(reply_fd)
    if client_fds:
        os.environ[CLIENT_VARIABLE] = str(client_fds[0])
    supervisor.run_group(Path(folder))
    os._exit(0)  # at once: what has been imported must not clean up in a process that used none


def _import(modules: list[str]) -> None:
    """Imports each; ends the process if one cannot be imported or leaves a thread running."""
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:
            _say(f"{name} cannot be imported: {type(error).__name__}: {error}")
            sys.exit(EXIT_CANNOT)
        if threads := _threads():
            _say(f"importing {name} starts threads: {', '.join(sorted(threads))}")
            sys.exit(EXIT_CANNOT)


def _spare_what_was_imported(before: set[str]) -> None:
    """Has the interpreter of an ending fork pass over what it shares with this process.

    Taking all of TensorFlow to pieces costs a fifth of a second, and memory pages of its own.
    """
    spared = [sys.modules.pop(name) for name in sys.modules.keys() - before - {"__main__"}]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(spared))


def _threads() -> set[str]:
    """The threads beside this one that a fork could miss.

    Those of OpenBLAS end before a fork and start again when needed, hence the trial.
    """
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    others = [path for path in Path("/proc/self/task").iterdir() if path.name != str(os.getpid())]
    return {(path / "comm").read_text().strip() for path in others} - SAFE_THREADS


def _say(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")


def main() -> None:
    """Imports, and serves the socket whose descriptor is named on the command line."""
    socket_fd, parent, *modules = sys.argv[1:]
    linux.die_with(int(parent))
    linux.restore_default_signals()
    if not sys.flags.safe_path:
        del sys.path[0]  # only what is installed: a program's own folder comes first in its path
    atexit.register(_spare_what_was_imported, set(sys.modules))  # the first, hence called last
    _import(modules)
    _say(f"ready: {', '.join(modules)}")
    requests = socket.socket(fileno=int(socket_fd))
    origin = Origin.now(without={requests.fileno()})
    programs.IMAGE = image = programs.Image.now()
    gc.collect()
    gc.freeze()  # collecting would copy pages that are shared
    forking.run_to_end(lambda: WarmProcess(requests, image).serve(), origin)


if __name__ == "__main__":
    main()
