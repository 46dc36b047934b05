"""The source that made a run: this one, or a commit of this clone in a folder of its own.

A run records a digest of its source. That of an earlier source is sought among the commits; if its
packages are others, `make setup` installs them from its lock.
"""

import io
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from components.errors import StepError
from pipelines.package.image import SOURCE_ROOT, SOURCES, source_digest, source_tag

LOCK = "requirements.lock"
MAX_COMMITS = 200  # of which each takes 0.4 s
PREFIX = "src-"
GIT_TIMEOUT_SECONDS = 60
SETUP_TIMEOUT_SECONDS = 1800
NUM_LINES_SHOWN = 5  # of the output of a failed set-up


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source, the interpreter that has its packages, and words for it.

    `is_recorded` if the run was made with it.
    """

    root: Path
    python: str
    words: str
    is_recorded: bool = True


def find_source(name: str, *, time: str, folder: Path) -> Source:
    """Return the source `src-DIGEST`, in `folder` unless it is this one; else this one.

    `time` is that of the run: the commits are tried by their distance from it.

    Raises:
        StepError: its packages cannot be installed.
    """
    this = source_tag()
    if name == this:
        return Source(root=SOURCE_ROOT, python=sys.executable, words=f"{name}, this source")
    for commit in _commits(time) if name.startswith(PREFIX) else ():
        _check_out(commit, folder, *SOURCES)
        if PREFIX + source_digest(folder) != name:
            continue
        _check_out(commit, folder)
        words = f"{name}, the commit {commit[:12]}"
        if (folder / LOCK).read_bytes() == (SOURCE_ROOT / LOCK).read_bytes():
            return Source(root=folder, python=sys.executable, words=words)
        return Source(root=folder, python=_set_up(folder), words=f"{words} with its own packages")
    return Source(
        root=SOURCE_ROOT,
        python=sys.executable,
        words=f"{this}, this source: {name}, which made it, is no commit of this clone",
        is_recorded=False,
    )


def _commits(time: str) -> list[str]:
    """Return the commits that changed the image's sources, the nearest to a time first."""
    if not shutil.which("git") or not (SOURCE_ROOT / ".git").exists():
        return []
    moment = datetime.fromisoformat(time).timestamp()
    commits = _git("log", "--all", "--format=%ct %H", "--", *SOURCES).decode().splitlines()
    commits.sort(key=lambda line: abs(int(line.split()[0]) - moment))
    return [line.split()[1] for line in commits[:MAX_COMMITS]]


def _check_out(commit: str, folder: Path, *names: str) -> None:
    """Write a commit's files to a folder, instead of what it has."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    there = _git("ls-tree", "--name-only", commit).decode().splitlines()
    archive = _git("archive", commit, "--", *(name for name in names if name in there))
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def _git(*words: str) -> bytes:
    done = subprocess.run(
        ["git", *words],
        cwd=SOURCE_ROOT,
        check=False,
        capture_output=True,
        timeout=GIT_TIMEOUT_SECONDS,
    )
    if done.returncode:
        raise StepError(f"git {words[0]} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _set_up(folder: Path) -> str:
    """Install the packages of a source's lock in its folder; return its interpreter."""
    done = subprocess.run(
        ["make", "setup"],
        cwd=folder,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SETUP_TIMEOUT_SECONDS,
    )
    if done.returncode:
        said = "\n".join(done.stdout.strip().splitlines()[-NUM_LINES_SHOWN:])
        raise StepError(f"the packages of {folder / LOCK} cannot be installed:\n{said}")
    return str(folder / ".venv/bin/python")
