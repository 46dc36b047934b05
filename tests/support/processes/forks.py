"""Programs as forks of a process that has imported their modules, which takes seconds.

`python -m tests.support.processes.forks MODULE…` imports, then reads requests from stdin, one JSON
object a line, and responds to each. A fork starts as a new process does
(`vertex_local/processes/forking.py`).
"""

import atexit
import ctypes
import functools
import gc
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

from tests.support.processes.signals import WITH_DEFAULT_SIGINT
from tests.support.processes.spares import PADDING, padded, run_program
from vertex_local.processes.forking import Baseline, ForkSpec, fork, run_to_end

CLONE_NEWNET = 0x40000000
# Imports of commands, services, steps and replicas, which take ten seconds.
EVERYTHING = (
    "tensorflow",
    "apache_beam",
    "components.prepare_examples.prepare",
    "trainer.loop",
    "tensorboard.summary",  # TensorFlow imports it when it first writes a summary
    "kfp.local",
    "kfp.dsl.executor_main",
    "google.cloud.aiplatform_v1.types",
    "vertex_local.server",
    "pipelines.cli",
    "pipelines.command.runs",
)


class Forks:
    """Client of a process that forks on request."""

    def __init__(self, *modules: str) -> None:
        # Tests find the processes that a run has left by this variable.
        env = {name: os.environ[name] for name in os.environ if name != "TRAINYARD_DIR"}
        self._process = subprocess.Popen(
            **padded(
                [
                    *WITH_DEFAULT_SIGINT,
                    sys.executable,
                    "-m",
                    "tests.support.processes.forks",
                    *modules,
                ],
                {**env, "TF_CONFIG": ""},
            ),
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,  # ends with this process, and all forks with it
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
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
        return Fork(self.ask(request), self.ask, log_path)

    def ask(self, request: dict[str, Any]) -> Any:
        """Return the response to a request; only the first waits for the imports."""
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process, and every fork that still runs."""
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@functools.cache
def forks_with(*modules: str) -> Forks:
    """Return this test process's client for these modules, which must start no thread."""
    return Forks(*modules)


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
    """Serve requests until stdin ends."""
    running: set[int] = set()
    for line in iter(sys.stdin.buffer.readline, b""):
        request = json.loads(line)
        if "pid" in request:
            response = _exit_code(request["pid"])
            running -= {request["pid"]} if response is not None else set()
        else:
            running.add(response := _fork(request, search_path))
        sys.stdout.write(f"{json.dumps(response)}\n")
        sys.stdout.flush()
    for pid in running:
        os.killpg(pid, signal.SIGKILL)


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
    run_to_end(lambda: serve(search_path), Baseline.capture(without=set()))


if __name__ == "__main__":
    main()
