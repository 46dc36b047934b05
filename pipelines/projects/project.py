"""Projects: folders of users with a workload.py, and snapshots of their code.

A snapshot is a copy of the project's code in the local state, `code/NAME-DIGEST`, whose name has a
digest of its content: a run that has started, waits or is resumed does not notice a later edit, and
an edit changes the cache key of every step.
"""

import fnmatch
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer.errors import ConfigError
from trainer.references import (
    BUILT_IN,
    CODE_DIR,
    FILE,
    describe_missing,
    files_digest,
    is_path,
    valid_name,
)

logger = logging.getLogger(__name__)

RUN_FILE = "run.yaml"
REQUIREMENTS = "requirements.txt"
MAX_FILE_BYTES = 10_000_000
MAX_BYTES = 100_000_000
MAX_FILES = 2_000
NEW_PREFIX = ".new-"
# Neither code nor read by code: a change of these must not change the digest.
SKIPPED_FOLDERS = ("__pycache__", "build", "dist", "node_modules", "schedules", "tests")
SKIPPED_FILES = (RUN_FILE, "*.ipynb", "*.md", "*.pyc", "test_*.py")
ENVIRONMENT_FILE = "pyvenv.cfg"  # in the folder of a virtual environment


@dataclass(frozen=True)
class Project:
    """A folder with a workload.py, or a single .py file; `path` is absolute."""

    path: Path

    @property
    def is_file(self) -> bool:
        """Return whether it is a single file, which travels alone."""
        return self.path.suffix == ".py"

    @property
    def name(self) -> str:
        """Return the name of its workload: the folder's or file's name, made valid."""
        return valid_name(self.path.stem if self.is_file else self.path.name)

    @property
    def run_file(self) -> Path | None:
        """Return its run.yaml; None if it has none."""
        path = self.path / RUN_FILE
        return path if not self.is_file and path.exists() else None

    @property
    def requirements(self) -> Path | None:
        """Return its requirements.txt; None if it has none."""
        path = self.path / REQUIREMENTS
        return path if not self.is_file and path.is_file() else None


@dataclass(frozen=True)
class Snapshot:
    """A copy of a project's code: `folder` is its path, whose name is NAME-DIGEST."""

    folder: Path
    project: Project

    @property
    def reference(self) -> str:
        """Return the name that images know it by, NAME-DIGEST."""
        return self.folder.name

    def in_users_words(self, text: str) -> str:
        """Return a text with the user's files in place of copies."""
        copied = self.folder / FILE if self.project.is_file else self.folder
        return text.replace(str(copied), str(self.project.path))


def project_of(reference: str, *, folder: Path | None = None) -> Project | None:
    """Return the project of a path; None if the reference is a name.

    Relative paths start from `folder`, by default the current one.

    Raises:
        ConfigError: there is no such folder or file, or it has no workload.py.
    """
    base = folder or Path.cwd()
    written = Path(reference).expanduser()
    if reference in BUILT_IN or not (is_path(reference) or (base / written / FILE).is_file()):
        return None
    path = Path(os.path.abspath(base / written))
    if path.name == FILE and path.is_file():
        path = path.parent
    project = Project(path)
    entry = path if project.is_file else path / FILE
    if not entry.is_file():
        raise ConfigError(f"{reference}: {describe_missing(entry)}")
    return project


def take_snapshot(project: Project, state_dir: Path, *, data: Sequence[str] = ()) -> Snapshot:
    """Copy a project's code to the local state, unless that has the same copy already.

    Paths and patterns of `data` are not copied.

    Raises:
        ConfigError: a link leaves the folder, or it has too much code to copy.
    """
    root = state_dir / CODE_DIR
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=NEW_PREFIX, dir=root) as new:
        copied = Path(new) / "copy"
        folder = root / f"{project.name}-{copy_code(project, copied, data=data)}"
        try:
            copied.rename(folder)
        except OSError:  # it is there already
            if not folder.is_dir():
                raise
            os.utime(folder)  # so that `prune` sees that it is about to be used
        origin_file(folder).write_text(str(project.path), encoding="utf-8")
    return Snapshot(folder, project)


def origin_file(snapshot: Path) -> Path:
    """Return the file beside a snapshot that names the folder it was taken from last."""
    return snapshot.with_name(f".{snapshot.name}")


def copy_code(project: Project, target: Path, *, data: Sequence[str] = ()) -> str:
    """Copy a project's code to a new folder; return the digest of the names and contents."""
    target.mkdir(mode=0o700)
    if project.is_file:
        shutil.copyfile(project.path, target / FILE)
    else:
        for name in code_files(project.path, data=data):
            copied = target / name
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(project.path / name, copied)
    return files_digest(target, sorted(file for file in target.rglob("*") if file.is_file()))


def file_digests(folder: Path) -> dict[str, bytes]:
    """Return the SHA-256 of each file of a folder by its path there."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).digest()
        for path in sorted(file for file in folder.rglob("*") if file.is_file())
    }


def code_files(folder: Path, *, data: Sequence[str] = ()) -> list[str]:
    """Return the files of a project's code, relative to its folder.

    Not code are hidden files, SKIPPED_FOLDERS and SKIPPED_FILES, virtual environments, the data,
    and (with a warning) files of more than MAX_FILE_BYTES.

    Raises:
        ConfigError: a link leaves the folder or is one to a folder, or there is too much code.
    """
    patterns = [os.path.relpath(pattern, folder) for pattern in data if pattern.startswith("/")]
    names, num_bytes = [], 0
    for path in _walk(folder, patterns):
        size = path.stat().st_size
        name = path.relative_to(folder).as_posix()
        if size > MAX_FILE_BYTES:
            logger.warning(
                "%s (%.0f MB) is not copied with the code: it is over %.0f MB; if it is data, name "
                "it in prepare.files of %s",
                path,
                size / 1e6,
                MAX_FILE_BYTES / 1e6,
                RUN_FILE,
            )
            continue
        names.append(name)
        num_bytes += size
        if num_bytes > MAX_BYTES or len(names) > MAX_FILES:
            raise ConfigError(
                f"{folder} has more than {MAX_BYTES / 1e6:.0f} MB or {MAX_FILES:,} files of code, "
                "which every run would copy; move data out of it, name it in prepare.files of "
                f"{RUN_FILE}, or give the workload a folder of its own"
            )
    return names


def _walk(folder: Path, data: Sequence[str]) -> Iterator[Path]:
    """Yield the regular files of a project's code in a fixed order."""
    inside = folder.resolve()
    for path, folders, names in os.walk(folder):
        here = Path(path)
        folders[:] = sorted(
            name for name in folders if _is_searched(here / name, folder=folder, data=data)
        )
        for name in sorted(names):
            file = here / name
            is_skipped = name.startswith(".") or any(
                fnmatch.fnmatchcase(name, pattern) for pattern in SKIPPED_FILES
            )
            if is_skipped or _is_data(file.relative_to(folder).as_posix(), data):
                continue
            if file.is_symlink() and not file.resolve().is_relative_to(inside):
                raise ConfigError(
                    f"{file} is a link to {file.resolve()}, outside the folder; copy the file"
                )
            if file.is_file():
                yield file


def _is_searched(path: Path, *, folder: Path, data: Sequence[str]) -> bool:
    if path.name.startswith(".") or path.name in SKIPPED_FOLDERS:
        return False
    if path.name.endswith(".egg-info") or (path / ENVIRONMENT_FILE).is_file():
        return False
    name = path.relative_to(folder).as_posix()
    if path.is_symlink() and any(file == name or file.startswith(f"{name}/") for file in data):
        return False
    if path.is_symlink():
        raise ConfigError(f"{path} is a link to the folder {path.resolve()}; copy the folder")
    return not _is_data(name, data)


def _is_data(name: str, patterns: Sequence[str]) -> bool:
    return any(
        name == pattern.rstrip("/")
        or name.startswith(f"{pattern.rstrip('/')}/")
        or fnmatch.fnmatchcase(name, pattern)
        or fnmatch.fnmatchcase(name, pattern.replace("**/", ""))
        for pattern in patterns
    )
