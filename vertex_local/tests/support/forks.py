"""Programs as forks of a process that has imported their modules, which takes seconds.

`python -m vertex_local.tests.support.forks MODULE…` imports, then accepts connections at the socket
that is its stdin, and responds to their requests, one JSON object a line. A fork starts as a new
process does (`vertex_local/processes/forking.py`).
"""

import atexit
import ctypes
import errno
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from vertex_local.processes import forking
from vertex_local.processes.forking import ForkSpec, Preloaded, fork
from vertex_local.tests.support.signals import WITH_DEFAULT_SIGINT
from vertex_local.tests.support.spares import PADDING, padded, run_program

CLONE_NEWNET = 0x40000000
START_TIMEOUT_SECONDS = 120
IDLE_SECONDS = 1
GREETING = b"\n"


class Forks:
    """Client of a process that forks on request; the workers of a test session share it."""

    def __init__(self, *modules: str) -> None:
        self._connection = _connect(modules)
        self._responses = self._connection.makefile("rb")
        atexit.register(self.close)

    def start(
        self,
        words: list[str],
        *,
        log_path: Path,
        cwd: str = "",
        network: str = "",
        **environ: str | None,
    ) -> "Fork":
        """Start `python -m MODULE …`, in a network namespace if one is named; append to a log.

        A variable that is None is removed from its environment.
        """
        env = {**os.environ, "TF_CONFIG": "", **environ}
        request = {
            "words": words,
            "log": str(log_path),
            "cwd": cwd or os.getcwd(),
            "network": network,
            "env": {name: value for name, value in env.items() if value is not None},
        }
        return self._start(request, log_path)

    def _start(self, request: dict[str, Any], log_path: Path) -> "Fork":
        return Fork(self.ask(request), self.ask, log_path)

    def ask(self, request: dict[str, Any]) -> Any:
        """Return the response to a request; only the first waits for the imports."""
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(self._responses.readline())

    def close(self) -> None:
        """End every fork that still runs."""
        self._responses.close()
        self._connection.close()


class Interpreters(Forks):
    """New interpreters instead of forks, where only those are safe."""

    def __init__(self) -> None:
        """Connect to nothing."""

    def _start(self, request: dict[str, Any], log_path: Path) -> "Fork":
        assert not request["network"], "a network namespace needs Linux"
        with log_path.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *request["words"][1:]],
                env=request["env"],
                cwd=request["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return Fork(process.pid, lambda _: process.poll(), log_path)


@functools.cache
def forks_with(*modules: str) -> Forks:
    """Return this test process's client for these modules, which must start no thread."""
    return Forks(*modules) if sys.platform == "linux" else Interpreters()


def _connect(modules: tuple[str, ...]) -> socket.socket:
    """Connect to the session's process with these modules; start it if there is none.

    Only one process can bind the name, which is free again once that process has ended.
    """
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    address = f"\0trainyard-forks-{session}-{zlib.crc32(repr(modules).encode())}"
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as listener:
            if _is_bound(listener, address):
                listener.listen()
                _start_server(modules, listener)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(address)
            if connection.recv(len(GREETING)):
                return connection
        except ConnectionError:
            pass  # it does not listen yet, or ends just now
        connection.close()
        time.sleep(0.02)
    raise TimeoutError(f"no process that forks within {START_TIMEOUT_SECONDS} s")


def _is_bound(listener: socket.socket, address: str) -> bool:
    """Bind a socket to an address; return False if another socket has it."""
    try:
        listener.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise
    return True


def _start_server(modules: tuple[str, ...], listener: socket.socket) -> None:
    # Tests find the processes that a run has left by this variable.
    env = {name: os.environ[name] for name in os.environ if name != "TRAINYARD_DIR"}
    process = subprocess.Popen(
        **padded(
            [
                *WITH_DEFAULT_SIGINT,
                sys.executable,
                "-m",
                "vertex_local.tests.support.forks",
                *modules,
            ],
            {**env, "TF_CONFIG": ""},
        ),
        cwd=Path(__file__).parents[3],
        stdin=listener,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    process.returncode = 0  # not this process's to wait for: others may use it for longer


class Fork:
    """A forked program, with the part of the interface of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, ask: Callable[[dict[str, Any]], Any], log_path: Path) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ask = ask
        self._log_path = log_path

    @property
    def output(self) -> str:
        """The log so far."""
        return self._log_path.read_text()

    def await_output(self, text: str, timeout_seconds: float = 90) -> None:
        """Wait until the log has the text."""
        deadline = time.monotonic() + timeout_seconds
        while text not in self.output:
            assert self.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.02)

    def communicate(self, timeout: float) -> tuple[str, None]:
        """Wait for the end; return the log."""
        self.wait(timeout)
        return self.output, None

    def poll(self) -> int | None:
        """Return the exit code; None while the program runs."""
        if self.returncode is None:
            self.returncode = self._ask({"pid": self.pid})
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for the end; return the exit code."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def serve(search_path: list[str]) -> None:
    """Serve the requests of all clients until none is left."""
    listener = socket.socket(fileno=sys.stdin.fileno())
    clients: dict[socket.socket, Client] = {}
    while ready := select.select([listener, *clients], [], [], None if clients else IDLE_SECONDS)[
        0
    ]:
        for one in ready:
            if one is listener:
                connection, _ = listener.accept()
                clients[connection] = Client(connection)
            elif not clients[one].respond(search_path):
                clients.pop(one).end()


class Client:
    """A test process, and its forks that run."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._requests = connection.makefile("rb")
        self._running: set[int] = set()
        self._send(GREETING)

    def respond(self, search_path: list[str]) -> bool:
        """Respond to the next request; return whether there was one."""
        line = self._requests.readline()
        if not line.endswith(b"\n"):
            return False
        request = json.loads(line)
        if "pid" in request:
            response = _exit_code(request["pid"])
            self._running -= {request["pid"]} if response is not None else set()
        else:
            self._running.add(response := _fork(request, search_path))
        self._send(json.dumps(response).encode() + b"\n")
        return True

    def _send(self, content: bytes) -> None:
        with suppress(ConnectionError):  # it has ended, as its next request will tell
            self._connection.sendall(content)

    def end(self) -> None:
        """Kill the forks that still run."""
        self._requests.close()
        self._connection.close()
        for pid in self._running:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _exit_code(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _fork(request: dict[str, Any], search_path: list[str]) -> int:
    network = request["network"]

    def run() -> None:
        if network:
            _enter(network)
        run_program(request["words"], search_path=search_path)

    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        return fork(
            ForkSpec(run=run, stdin=nothing, output=log, env=request["env"], cwd=request["cwd"])
        )
    finally:
        os.close(log)
        os.close(nothing)


def _enter(network: str) -> None:
    """Enter a network namespace that `ip netns add` has created."""
    with open(f"/run/netns/{network}", "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def main() -> None:
    """Import the modules and serve."""
    *modules, _ = sys.argv[1:]
    os.environ.pop(PADDING)
    search_path = sys.path[1:]
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # collecting would copy pages that are shared
    forking.PRELOADED = Preloaded.capture(without=set())
    serve(search_path)


if __name__ == "__main__":
    main()
