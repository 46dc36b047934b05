"""Kills of a service and its processes."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress

import psutil

from vertex_local.testing import RunningService
from vertex_local.tests.support.pipeline_runs import Runs
from vertex_local.tests.support.seen import is_running
from vertex_local.tests.support.waiting import wait_until


def kill_runner(runs: Runs, job: dict) -> None:
    """Kill the run's current runner, unless it has just ended, and wait for its end."""
    path = runs.files(job) / "state.json"

    def runner() -> dict:
        return json.loads(path.read_text())["replicas"]["pipeline"]

    wait_until(lambda: runner()["pid"], "a runner")
    pid = runner()["pid"]
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid), "the end of the runner")


def kill_all(service: RunningService) -> int:
    """Kill a service and all its processes at once, as a power cut would; return their number."""
    return kill_some(service, lambda process: True)


def kill_some(service: RunningService, is_chosen: Callable[[psutil.Process], bool]) -> int:
    """Kill a service and its chosen processes, so that none sees another's end."""
    stopped: set[psutil.Process] = set()
    while new := tree_of(service.process.pid) - stopped:  # a stopped process starts no others
        stopped |= new
        for process in new:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
    chosen = {
        process for process in stopped if process.pid == service.process.pid or is_chosen(process)
    }
    for process in chosen:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    for process in stopped - chosen:
        with suppress(psutil.NoSuchProcess):
            process.resume()
    service.process.wait(20)
    return len(chosen)


def tree_of(pid: int) -> set[psutil.Process]:
    process = psutil.Process(pid)
    return {process, *process.children(recursive=True)}
