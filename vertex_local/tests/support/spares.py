"""Processes that a fork starts with `subprocess`, as forks as well.

A service starts its warm process, whose imports take seconds, which the process of `forks.py` has
behind it. So a spare child is forked before the program begins,
while there is one thread. `subprocess.Popen` hands its arguments to the spare, which becomes that
process; its parent, pid, files and environment are those of a process that was started anew.
"""

import ctypes
import functools
import inspect
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vertex_local.processes.forking import ForkSpec, become
from vertex_local.processes.programs import Program

PADDING = "PADDING_OF_ENVIRONMENT"
NUM_PADDING_BYTES = 32_000
MAX_REQUEST_BYTES = 200_000
MAX_FDS = 8
# Program, or program and command, that starts another, and that one.
STARTED_BY = dict.fromkeys(
    ("vertex_local.cli", "vertex_local.tests.support.brisk_service"),
    "vertex_local.processes.warm_process",
)
_execute_child = subprocess.Popen._execute_child
_signature = inspect.signature(_execute_child)


def padded(command: list[str], env: dict[str, str]) -> dict[str, Any]:
    """Return `args` and `env` of a process whose forks show other commands and environments."""
    padding = NUM_PADDING_BYTES * "-"
    return {"args": [*command, padding], "env": {**env, PADDING: padding}}


def run_program(words: list[str], *, search_path: list[str]) -> None:
    """Run `python -m MODULE …` in this fork, with a spare for the process that it starts."""
    show(words, dict(os.environ))
    sys.path[:] = search_path
    sys.modules.pop(words[2], None)  # runpy warns of a module that is to run and was imported
    _start_by(_execute_child)
    module = STARTED_BY.get(" ".join(words[2:4])) or STARTED_BY.get(words[2])
    if module and (words[2] != "vertex_local.cli" or "--preload" in words):
        _Spare(module, search_path).patch_popen()
    Program.of(words).run()


def show(words: list[str], env: dict[str, str]) -> None:
    """Show a command and an environment in /proc/PID, where they are those of the origin."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    arguments, arguments_end, environment, environment_end = map(int, fields[45:49])
    _overwrite(arguments, arguments_end, words)
    _overwrite(environment, environment_end, [f"{name}={env[name]}" for name in env])


def _overwrite(begin: int, end: int, words: list[str]) -> None:
    content = b"".join(os.fsencode(word) + b"\0" for word in words)[: end - begin - 1]
    ctypes.memmove(begin, content.ljust(end - begin, b"\0"), end - begin)


class _Spare:
    """A child that waits to become `python -m MODULE …`, and ends when its parent does."""

    def __init__(self, module: str, search_path: list[str]) -> None:
        self._module = module
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if not self.pid:
            self._requests.close()
            _await_request(theirs, search_path)
        theirs.close()

    def patch_popen(self) -> None:
        """Have the next `Popen` of the module use this process."""

        @functools.wraps(_execute_child)
        def execute(popen: subprocess.Popen, *args: Any) -> None:
            given = _signature.bind(popen, *args).arguments
            if self._can_be(given["args"]):
                _start_by(_execute_child)
                self._become(popen, given)
            else:
                _execute_child(popen, *args)

        _start_by(execute)

    def _can_be(self, words: Any) -> bool:
        if not isinstance(words, list) or _without_flag(words)[:2] != ["-m", self._module]:
            return False
        stages = words[5:] if self._module == "vertex_local.processes.warm_process" else []
        return all(name in sys.modules for modules in stages for name in modules.split(","))

    def _become(self, popen: subprocess.Popen, given: dict[str, Any]) -> None:
        fds = [given["p2cread"], given["c2pwrite"]]
        standard = [fd if fd >= 0 else number for number, fd in enumerate(fds)]
        kept = given["pass_fds"]
        errors = [given["errwrite"]] if given["errwrite"] >= 0 else []
        request = {
            "words": ["python", *map(str, _without_flag(given["args"]))],
            "env": dict(os.environ if given["env"] is None else given["env"]),
            "cwd": os.fspath(given["cwd"] or os.getcwd()),
            "kept": kept,
            "has_errors": bool(errors),
        }
        fds = [*standard, *errors, *kept]
        socket.send_fds(self._requests, [json.dumps(request).encode()], fds)
        self._requests.close()
        popen.pid = self.pid
        popen._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        popen._close_pipe_fds(*(given[name] for name in pipes))


def _without_flag(words: list[Any]) -> list[Any]:
    """Return the arguments of this interpreter without `-P`; none of another program."""
    if words[0] != sys.executable:
        return []
    return words[2:] if words[1:2] == ["-P"] else words[1:]


def _start_by(function: Callable[..., None]) -> None:
    subprocess.Popen._execute_child = function


def _await_request(requests: socket.socket, search_path: list[str]) -> None:
    show(["spare"], {})
    message, fds, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, MAX_FDS)
    if not message:
        os._exit(0)
    requests.close()
    request = json.loads(message)
    stdin, output, *kept = fds
    errors = kept.pop(0) if request["has_errors"] else None
    new_names = {str(old): str(new) for old, new in zip(request["kept"], kept, strict=True)}
    words = [new_names.get(word, word) for word in request["words"]]

    def run() -> None:
        if errors is not None:
            os.dup2(errors, sys.stderr.fileno())
            os.close(errors)
        run_program(words, search_path=search_path)

    become(
        ForkSpec(
            run=run,
            stdin=stdin,
            output=output,
            kept=(*kept, *([] if errors is None else [errors])),
            env=request["env"],
            cwd=request["cwd"],
        ),
        parent=os.getppid(),
        report_fd=os.open(os.devnull, os.O_WRONLY),
    )
