"""`trainyard doctor`: what of machine, clone, state, service or project must be mended."""

import argparse
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from components.shared.vertex.errors import VertexError
from pipelines.command.actions import add_json, describe, print_json
from pipelines.command.completion import ROOT, database_uri
from pipelines.command.target_options import add_target, target_of
from pipelines.exit_codes import FAILED, OK
from pipelines.places.local_service import service_start
from pipelines.projects.requirements import check_requirements
from trainer.errors import ConfigError
from trainer.runtime.cores import machine_cores

GIGABYTE = 1e9
LEAST_MEMORY_GB, LEAST_DISK_GB = 3.5, 3.0
HELP = """\
Checks the machine, the environment, the local state, its service, and with --on vertex credentials
and project. Each line that must be mended says how; the exit code is then 1, else 0.

  trainyard doctor
  trainyard doctor --on vertex --project P
"""


@dataclass(frozen=True)
class Check:
    """A thing that was checked; `mend` says what to do if it is not right."""

    name: str
    detail: str
    is_right: bool = True
    mend: str = ""


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `doctor`."""
    describe(parser, HELP)
    add_json(parser, "the checks as JSON")
    add_target(parser)
    parser.set_defaults(command=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    state_dir = arguments.state_dir.absolute()
    there = next(each for each in (state_dir, *state_dir.parents) if each.exists())
    checks = [*_of_machine(there), _of_environment(), *_of_state(state_dir, there)]
    if arguments.on == "vertex":
        checks.append(_of_project(arguments))
    if arguments.json:
        print_json([asdict(check) for check in checks])
    else:
        for check in checks:
            words = f"ok     {check.name}: {check.detail}"
            print(words if check.is_right else f"wrong{words[5:]}; mend it: {check.mend}")
    return OK if all(check.is_right for check in checks) else FAILED


def _of_machine(folder: Path) -> Iterator[Check]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIGABYTE
    detail = f"Python {platform.python_version()}, {machine_cores()} cores, {memory:.1f} GB"
    is_right = (3, 11) <= sys.version_info < (3, 14) and memory > LEAST_MEMORY_GB
    yield Check("machine", detail, is_right, "use Python 3.11, 3.12 or 3.13, and 4 GB of memory")
    free = shutil.disk_usage(folder).free / GIGABYTE
    mend = "trainyard prune --older-than 30d"
    yield Check("disk", f"{free:.1f} GB free in {folder}", free > LEAST_DISK_GB, mend)


def _of_environment() -> Check:
    lock = ROOT / "requirements.lock"
    if not lock.is_file():
        return Check("environment", f"{sys.prefix}, installed from a wheel")
    try:
        check_requirements(lock)
    except ConfigError as error:
        problem = str(error).partition("; run: ")[0]
        return Check("environment", problem, False, f"make -C {ROOT} setup")
    return Check("environment", f"{sys.prefix} is as {lock}")


def _of_state(state_dir: Path, there: Path) -> Iterator[Check]:
    """Yield the checks of the local state; `there` is the first of its folders that exists."""
    if not (there.is_dir() and os.access(there, os.R_OK | os.W_OK | os.X_OK)):
        yield Check(
            "state",
            f"{there} is no folder that you may read and write",
            False,
            "give another --state-dir, or make it one",
        )
        return
    root = state_dir / "vertex"
    path = root / "vertex.db"
    if not path.exists():
        yield Check("state", f"none in {state_dir} yet; the first run makes it")
        return
    size = sum(each.lstat().st_size for each in state_dir.rglob("*")) / GIGABYTE
    yield Check("state", f"{state_dir}, {size:.2f} GB")
    try:
        with closing(sqlite3.connect(database_uri(path), uri=True)) as database:
            found = str(database.execute("PRAGMA integrity_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        found = str(error)
    mend = f"restore a copy, or start without it: mv {root} {root}.old"
    yield Check("database", f"{path}: {found}", found == "ok", mend)
    files = (ROOT / "vertex_local").rglob("*.py")
    is_old = 0 < service_start(root) < max((file.stat().st_mtime for file in files), default=0)
    detail = "runs with older code" if is_old else "runs, or is started by a command"
    yield Check("service", detail, not is_old, f"vertex-local stop --root {root}")


def _of_project(arguments: argparse.Namespace) -> Check:
    from google.auth.exceptions import GoogleAuthError

    try:
        target = target_of(arguments, needs_bucket=False)
        target.connect().get(f"{target.parent}/models", pageSize="1")
    except GoogleAuthError as error:
        return Check("credentials", str(error), False, "gcloud auth application-default login")
    except (ConfigError, VertexError) as error:
        return Check("project", str(error), False, "docs/vertex-setup.md has each step")
    page = f"https://console.cloud.google.com/iam-admin/quotas?project={target.project}"
    return Check("project", f"{target.project} answers; `trainyard plan` needs quota: {page}")
