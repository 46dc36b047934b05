"""A busy service and its processes, killed at random: does the next start remove all leftovers?

    python -m tools.soak.service_kills --rounds 100

On Linux half as many rounds follow where the kernel refuses PID namespaces. Each round prints what
it killed and what was left, the end the number of rounds that left nothing; the exit code is 0 if
all did.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from unittest.mock import patch

import psutil

from vertex_local.machine.marks import marked
from vertex_local.processes.leftovers import ROOT_VARIABLE
from vertex_local.tests.support.kills import kill_all, kill_some, tree_of
from vertex_local.tests.support.pid_namespaces import no_pid_namespaces, start_refused
from vertex_local.tests.support.platform import IS_PORTABLE
from vertex_local.tests.support.seen import running
from vertex_local.tests.support.service import PRELOAD_KFP, RunningService, running_service
from vertex_local.tests.support.sleeping_processes import SHELLS, shell_job, submit_sleeps

KILLS = ("one", "half", "service", "all")
LONGEST_DELAY_SECONDS = 2.0
SETTLE_SECONDS = 10


def run(folder: Path, rounds: int, seed: int, *, is_refused: bool = False) -> list[list[str]]:
    """Keep a service busy and kill, round by round; return what was left in each, and at the end.

    Args:
        folder: for the service and its temporary files.
        rounds: number of kills.
        seed: of what is killed, and when.
        is_refused: True to start the service where the kernel refuses PID namespaces.
    """
    chance, found = random.Random(seed), list[list[str]]()
    refused: AbstractContextManager[list[str]] = (
        no_pid_namespaces() if is_refused else nullcontext([])
    )
    with _temporary_files(folder / "temp") as temp:
        with refused as refusing, running_service(folder / "vertex") as service:
            if is_refused:
                service.stop()
                start_refused(service, refusing)
            for number in range(rounds):
                marker = f"300.{seed % 10**6:06d}{os.getpid()}{number:04d}{int(is_refused)}"
                _keep_busy(service, marker, folder, has_namespaces=not (is_refused or IS_PORTABLE))
                time.sleep(chance.uniform(0, LONGEST_DELAY_SECONDS))
                killed = _kill(service, KILLS[number % len(KILLS)], chance)
                service.options = chance.choice([(), PRELOAD_KFP])
                start_refused(service, refusing) if is_refused else service.start()
                found.append(_settled_traces(service, marker, temp))
                _print(round=number, refused=is_refused, killed=killed, left=found[-1])
            service.options = ()
        return [*found, [str(path) for path in temp.iterdir()]]


@contextmanager
def _temporary_files(folder: Path) -> Iterator[Path]:
    """Create the folder for temporary files of this process and its children."""
    folder.mkdir()
    environ = patch.dict(os.environ, TMPDIR=str(folder))
    with environ, patch.object(tempfile, "tempdir", None):
        yield folder


def _keep_busy(service: RunningService, marker: str, folder: Path, *, has_namespaces: bool) -> None:
    """Submit jobs and a run whose processes sleep.

    One that has left its parent, session and environment is found only with namespaces.
    """
    for name, shell in SHELLS.items():
        if has_namespaces or name != "daemon":
            service.do("POST", "customJobs", shell_job(shell.format(marker)))
    submit_sleeps(service, marker, folder)


def _kill(service: RunningService, what: str, chance: random.Random) -> str:
    """Kill, and await the end of the service, which follows or is ordered; return what it was."""
    killed = _kill_what(service, what, chance)
    if what == "one" and service.process.poll() is None:
        time.sleep(chance.uniform(0, 1))
        service.stop()  # an orderly stop, even if its processes were killed
    service.process.wait(20)
    return killed


def _kill_what(service: RunningService, what: str, chance: random.Random) -> str:
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


def _settled_traces(service: RunningService, marker: str, temp: Path) -> list[str]:
    """Return the leftovers that stay: a process killed while it starts ends once it has a turn."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (found := _traces(service, marker, temp)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _traces(service: RunningService, marker: str, temp: Path) -> list[str]:
    """Return the leftovers of an earlier service after the start of this one."""
    ours = {process.pid for process in tree_of(service.process.pid)}
    of_root = marked(lambda environment: environment.get(ROOT_VARIABLE) == str(service.root))
    found = {*running(marker), *(process.pid for process in of_root)} - ours
    folders = [path for one in temp.iterdir() for path in (one, *one.iterdir())]
    return [
        *(f"process {pid}: {_command(pid)}" for pid in sorted(found)),
        *(str(path) for path in folders if path != (service.root / "tmp").readlink()),
    ]


def _command(pid: int) -> str:
    with suppress(psutil.Error):
        return " ".join(psutil.Process(pid).cmdline())
    return "(has ended)"


def main() -> int:
    """Kill and count; print one JSON object a round and one in the end."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    arguments = parser.parse_args()
    kernels = [(False, arguments.rounds)]
    if not IS_PORTABLE:
        kernels.append((True, arguments.rounds // 2))
    found: list[list[str]] = []
    for is_refused, rounds in kernels:
        with tempfile.TemporaryDirectory(prefix="service-kills-") as folder:
            found += run(Path(folder), rounds, arguments.seed, is_refused=is_refused)
    tried = sum(rounds for _, rounds in kernels)
    num_failed = sum(map(bool, found))
    _print(seed=arguments.seed, tried=tried, passed=tried - num_failed)
    return int(num_failed > 0)


def _print(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
