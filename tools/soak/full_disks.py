"""Whole runs whose disk fills up during a task: how each ends, and whether it can be repeated.

    python -m tools.soak.full_disks

A service on a small tmpfs serves a version of a model. For each task of a second run, the disk is
filled at once or half a second after the task has started, three times until no file can be
created, and emptied some seconds later. Prints a table. The exit code is 0 if in each case the
database is intact, the served version responds to all requests, the run succeeds or fails with the
reason, and its repetition succeeds. Needs root.
"""

import argparse
import contextlib
import itertools
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import write_mnist
from tests.support.processes.whole_runs import Home
from vertex_local.pipelines import journal
from vertex_local.tests.support.forks import Fork

MOUNT = ("mount", "-t", "tmpfs", "-o", "size=300m,nr_inodes=20000,mode=700", "tmpfs")
TASKS = (
    *("prepare-examples", "train", "evaluate", "upload-model"),
    *("record-version", "deploy-model", "release-model", "teardown"),
)
LONG_TASKS = ("prepare-examples", "train", "evaluate")
SHORT_SECONDS, LONG_SECONDS = 4.0, 20.0
TIMEOUT_SECONDS = 240
REASONS = ("No space left", "disk is full")
INSTANCES = {"instances": [{"image": [[0] * 28] * 28}]}


@dataclass
class Case:
    """A task during which the disk is full, and the results."""

    task: str
    delay_seconds: float = 0.0
    full_seconds: float = SHORT_SECONDS
    takes_files: bool = False
    outcome: str = ""
    problems: list[str] = field(default_factory=list)
    num_served: int = 0

    def row(self) -> str:
        """Return the line of the table."""
        kind = "no files" if self.takes_files else "no bytes"
        case = f"{self.task:17} {kind} {self.delay_seconds:4.1f} s {self.full_seconds:4.0f} s"
        return f"{case} {self.num_served:4d} {self.outcome:22} {'; '.join(self.problems) or 'ok'}"


class FullDisks:
    """Runs on a small disk that serves a version."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._seeds = itertools.count(1)
        self._endpoint = ""

    def serve_a_version(self) -> None:
        """Deploy the version that the cases must not disturb."""
        code, output = self._home.run(*self._arguments(next(self._seeds)))
        assert code == 0, output
        listed = self._home.ask("projects/local/locations/us-central1/endpoints")
        self._endpoint = listed.json()["endpoints"][0]["name"]

    def try_case(self, case: Case) -> None:
        """Run with a full disk, then again; record the outcome."""
        arguments = self._arguments(next(self._seeds))
        run = self._home.start_run(*arguments)
        try:
            if self._has_started(case.task, run):
                time.sleep(case.delay_seconds)
                self._fill_for_a_while(case)
            else:
                case.problems.append("the task did not start")
            output, _ = run.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            run.kill()
            case.outcome = "no end"
            case.problems.append(f"the command did not end within {TIMEOUT_SECONDS} s")
            return
        has_reason = any(reason in output for reason in REASONS)
        case.outcome = f"exit {run.returncode}" + (", with the reason" if has_reason else "")
        if run.returncode and not has_reason:
            case.problems.append(f"no reason: {output[-1500:]}")
        if "Traceback" in output and not has_reason:
            case.problems.append("a traceback")
        self._check_database(case)
        code, output = self._home.run(*arguments)
        if code:
            case.problems.append(f"the repetition failed with {code}: {output[-1500:]}")

    def _arguments(self, seed: int) -> list[str]:
        settings = ("thresholds.accuracy=0", "gate.min_gain=-1", f"train.seed={seed}")
        words = [word for setting in settings for word in ("--set", setting)]
        return ["--no-cache", "--keep-endpoint", *words]

    def _has_started(self, task: str, run: Fork) -> bool:
        """Wait until a task of the newest run has started, or the run has ended."""
        before = set(self._folders())
        while run.poll() is None:
            for folder in set(self._folders()) - before:
                events = journal.read(folder)
                if any(event.get("display_name") == task for event in events):
                    return True
            time.sleep(0.02)
        return False

    def _folders(self) -> list[Path]:
        return list((self._home.state / "vertex" / "pipelines").glob("*"))

    def _fill_for_a_while(self, case: Case) -> None:
        """Keep the disk full, and ask the served version meanwhile."""
        fill = _take_files if case.takes_files else _take_bytes
        fillers = self._home.state / "fillers"
        deadline = time.monotonic() + case.full_seconds
        with contextlib.suppress(OSError):
            fillers.mkdir()
        for number in itertools.count():
            fill(fillers, number)
            self._predict(case)
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        subprocess.run(["rm", "-rf", fillers], check=True)

    def _predict(self, case: Case) -> None:
        response = self._home.ask(f"{self._endpoint}:predict", INSTANCES)
        case.num_served += response.ok
        if not response.ok:
            case.problems.append(f"a prediction failed: {response.text[:300]}")

    def _check_database(self, case: Case) -> None:
        path = self._home.state / "vertex" / "vertex.db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            [[result]] = database.execute("PRAGMA integrity_check")
        if result != "ok":
            case.problems.append(f"the database: {result}")
        self._predict(case)


def _take_bytes(folder: Path, number: int) -> None:
    """Write until no byte is free."""
    with contextlib.suppress(OSError), (folder / str(number)).open("wb", buffering=0) as file:
        for size in (1024 * 1024, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass


def _take_files(folder: Path, number: int) -> None:
    """Create files until no more can be created."""
    with contextlib.suppress(OSError):
        for count in itertools.count():
            (folder / f"{number}-{count}").touch()


def cases() -> list[Case]:
    """Return the 24 cases."""
    return [
        *(Case(task, delay) for task in TASKS for delay in (0.0, 0.5)),
        *(Case(task, 0.5, LONG_SECONDS) for task in LONG_TASKS),
        *(Case(task, takes_files=True) for task in LONG_TASKS),
    ]


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a small file system for as long as the block lasts."""
    folder.mkdir(parents=True)
    subprocess.run([*MOUNT, folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def main() -> int:
    """Run the cases; print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    arguments = parser.parse_args()
    chosen = [case for case in cases() if case.task in arguments.tasks]
    with tempfile.TemporaryDirectory(prefix="full-disks-") as folder:
        home = Home(Path(folder, "home"), write_mnist(Path(folder, "mnist"), num_train=64))
        with small_disk(home.state), home.serving():
            disks = FullDisks(home)
            disks.serve_a_version()
            for case in chosen:
                disks.try_case(case)
                _print(case.row())
    num_passed = sum(not case.problems for case in chosen)
    _print(f"{num_passed} of {len(chosen)} passed")
    return 0 if num_passed == len(chosen) else 1


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
