"""Random kills of a busy service and its processes: the next start removes all leftovers.

`KILL_ROUNDS=100 pytest -s vertex_local/tests/test_random_kills.py` runs a meaningful number of
rounds, `KILL_SEED` repeats one. Each round prints what it killed, the end the number of rounds
without leftovers.
"""

import json
import os
import random
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path

import psutil
import pytest

from vertex_local.processes.leftovers import ROOT_VARIABLE
from vertex_local.tests.support.kills import kill_all, kill_some, tree_of
from vertex_local.tests.support.pid_namespaces import no_pid_namespaces, start_refused
from vertex_local.tests.support.platform import IS_PORTABLE
from vertex_local.tests.support.seen import marked, running
from vertex_local.tests.support.service import running_service
from vertex_local.tests.support.sleeping_processes import SHELLS, shell_job, submit_sleeps

ROUNDS = int(os.environ.get("KILL_ROUNDS", "4"))
SEED = int(os.environ.get("KILL_SEED", time.time_ns() % 10**6))
KILLS = ("one", "half", "service", "all")
LONGEST_DELAY_SECONDS = 2.0
SETTLE_SECONDS = 10
PRELOAD = "kfp.local,kfp.dsl.executor_main"

pytestmark = pytest.mark.timeout(60 + 60 * ROUNDS)


def kill_what(what: str, service, chance: random.Random) -> str:
    """Kill one process of a service, the service, half of all or all; return which."""
    if what == "all":
        return f"all {kill_all(service)} processes"
    if what == "half":
        return f"{kill_some(service, lambda process: chance.random() < 0.5)} processes of more"
    victim = psutil.Process(service.process.pid)
    if what == "one":
        victim = chance.choice(sorted(tree_of(service.process.pid), key=lambda one: one.pid))
    words = "a process that has just ended"
    with suppress(psutil.NoSuchProcess):
        is_service = victim.pid == service.process.pid
        words = "the service" if is_service else f"{victim.name()}: {victim.cmdline()}"[:150]
        victim.kill()
    return words


def traces(service, marker: str, temp_folder: Path) -> list[str]:
    """Return the leftovers of an earlier service after the start of this one."""
    ours = {process.pid for process in tree_of(service.process.pid)}
    found = {*running(marker), *marked(f"{ROOT_VARIABLE}={service.root}")} - ours
    folders = [path for one in temp_folder.iterdir() for path in (one, *one.iterdir())]
    return [
        *(f"process {pid}: {_command(pid)}" for pid in sorted(found)),
        *(str(path) for path in folders if path != (service.root / "tmp").readlink()),
    ]


def _command(pid: int) -> str:
    with suppress(psutil.Error):
        return " ".join(psutil.Process(pid).cmdline())
    return "(has ended)"


def settled_traces(service, marker: str, temp_folder: Path) -> list[str]:
    """Return the leftovers that stay: a process killed while it starts ends once it has a turn."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (found := traces(service, marker, temp_folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


@pytest.mark.parametrize(
    "is_refused",
    [
        pytest.param(False, id="as it is"),
        pytest.param(True, id="refused", marks=pytest.mark.linux("PID namespaces")),
    ],
)
def test_random_kills_leave_no_leftovers(temp_folder, tmp_path, is_refused):
    # A process that has left its parent, session and environment is found only with namespaces.
    has_namespaces = not (is_refused or IS_PORTABLE)
    shells = [text for name, text in SHELLS.items() if has_namespaces or name != "daemon"]
    chance = random.Random(SEED)
    failures = []
    rounds = ROUNDS // 2 if is_refused else ROUNDS
    refused = no_pid_namespaces() if is_refused else nullcontext([])
    with refused as refusing, running_service(tmp_path / "vertex") as service:
        if is_refused:
            service.stop()
            start_refused(service, refusing)
        for number in range(rounds):
            marker = f"300.{SEED:06d}{os.getpid()}{number:04d}{int(is_refused)}"
            for shell in shells:
                service.do("POST", "customJobs", shell_job(shell.format(marker)))
            submit_sleeps(service, marker, tmp_path)
            time.sleep(chance.uniform(0, LONGEST_DELAY_SECONDS))

            what = KILLS[number % len(KILLS)]
            killed = kill_what(what, service, chance)
            if what == "one" and service.process.poll() is None:
                time.sleep(chance.uniform(0, 1))
                service.stop()  # an orderly stop, even if its processes were killed
            service.process.wait(20)
            service.options = chance.choice([(), ("--preload", PRELOAD)])
            start_refused(service, refusing) if is_refused else service.start()

            left = settled_traces(service, marker, temp_folder)
            failures += [left] if left else []
            sys.stdout.write(f"{json.dumps({'round': number, 'killed': killed, 'left': left})}\n")
        service.options = ()
    count = {
        "seed": SEED,
        "refused": is_refused,
        "tried": rounds,
        "left nothing": rounds - len(failures),
    }
    sys.stdout.write(f"{json.dumps(count)}\n")
    assert not failures, f"KILL_SEED={SEED}"
    assert list(temp_folder.iterdir()) == []
