"""Programs as forks of a process that has imported what they need: each is spared seconds of that.

`python tests/support/forks.py MODULE…` imports, then reads requests from stdin, one JSON object a
line, and answers each. A fork starts as a new process does (`vertex_local/processes/forking.py`).
"""

import atexit
import ctypes
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vertex_local.processes.forking import Baseline, ForkSpec, fork, run_to_end
from vertex_local.processes.programs import Program

CLONE_NEWNET = 0x40000000


class Forks:
    """The process that forks, and requests to it."""

    def __init__(self, *modules: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, *modules],
            stdin=subprocess.PIPE,  # ends with this process, and all forks with it
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TF_CONFIG": ""},
            start_new_session=True,
        )
        atexit.register(self.close)

    def start(
        self,
        words: list[str],
        *,
        log_path: Path,
        cwd: str = "",
        network: str = "",
        **environ: str,
    ) -> "Fork":
        """Starts `python -m MODULE …`, perhaps in a network namespace; it adds to a log."""
        request = {
            "words": words,
            "log": str(log_path),
            "cwd": cwd or os.getcwd(),
            "network": network,
            "env": {**os.environ, "TF_CONFIG": "", **environ},
        }
        return Fork(self.ask(request), self.ask)

    def ask(self, request: dict[str, Any]) -> Any:
        """The answer to a request; it comes at once but for the first."""
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """Ends it, and every fork that is left."""
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


@functools.cache
def forks_with(*modules: str) -> Forks:
    """The one of this test process that has imported these; none of them may leave a thread."""
    return Forks(*modules)


class Fork:
    """One program; what the tests use of `subprocess.Popen`."""

    def __init__(self, pid: int, ask: Callable[[dict[str, Any]], Any]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ask = ask

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        if self.returncode is None:
            self.returncode = self._ask({"pid": self.pid})
        return self.returncode

    def wait(self, timeout: float) -> int:
        """The exit code, once it has ended."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def serve() -> None:
    """Answers requests until stdin ends."""
    running: set[int] = set()
    for line in iter(sys.stdin.buffer.readline, b""):
        request = json.loads(line)
        if "pid" in request:
            answer = _exit_code(request["pid"])
            running -= {request["pid"]} if answer is not None else set()
        else:
            running.add(answer := _fork(request))
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()
    for pid in running:
        os.killpg(pid, signal.SIGKILL)


def _exit_code(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _fork(request: dict[str, Any]) -> int:
    program = Program.of(request["words"])
    network = request["network"]

    def run() -> None:
        if network:
            _enter(network)
        program.run()

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
    """Makes a network namespace that `ip netns add` has made this process's own."""
    with open(f"/run/netns/{network}", "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def main() -> None:
    """Imports, and serves."""
    sys.path[0] = str(Path(__file__).parents[2])
    for module in sys.argv[1:]:
        importlib.import_module(module)
    run_to_end(serve, Baseline.capture(without=set()))


if __name__ == "__main__":
    main()
