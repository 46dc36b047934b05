"""Files of this machine's runs: their folders, and the step cache's entries that refer to them.

The service caches a step's outputs in the folder of the run that wrote them, so other runs may use
files in that folder. A run holds a shared lock (flock) on each folder whose outputs it has taken
from the cache.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import RUN_LABEL, label_of
from pipelines.errors import ResourceError
from pipelines.resources.kinds import JOB, LATEST, RUN
from pipelines.resources.names import short_name
from pipelines.runs.request import RUN_NAME
from trainer import Json

PACKAGE_FILE = "pipeline.yaml"
REMOVED_PREFIX = ".removed-"
JOB_NAME = re.compile(r"customJobs/(\d+)")


@dataclass(frozen=True)
class RunFiles:
    """The files of one service's runs."""

    api: VertexApi
    state_dir: Path

    @property
    def root(self) -> Path:
        """Return the folder that contains the runs' folders."""
        return self.state_dir / "runs"

    def folder_of(self, run: str) -> Path | None:
        """Return the folder of a run; None if it does not exist or is a link."""
        folder = self.root / run
        is_folder = RUN_NAME.fullmatch(run) and folder.is_dir() and not folder.is_symlink()
        return folder if is_folder else None

    def names_without_record(self, known: set[str]) -> list[str]:
        """Return the runs unknown to the service, by the package that `trainyard run` writes."""
        packages = self.root.glob(f"*/{PACKAGE_FILE}")
        names = sorted(path.parent.name for path in packages if path.parent.name not in known)
        return [name for name in names if self.folder_of(name)]

    def latest(self) -> str:
        """Return the run that `latest` points to, or ""."""
        with contextlib.suppress(OSError):
            return Path(os.readlink(self.root / LATEST)).name
        return ""

    def used_by(self, run: str) -> set[str]:
        """Return the other runs whose files are inputs or outputs of a run's tasks."""
        details = json.dumps(
            self.api.find(RUN.path(self.api, run), fields="jobDetail"), ensure_ascii=False
        )
        return self._names_in(details) - {run}

    def jobs_by_run(self) -> dict[str, list[Json]]:
        """Return the training jobs of each run."""
        by_run: dict[str, list[Json]] = {}
        for job in self.api.list_resources(JOB.collection, readMask="name,state,labels"):
            if run := label_of(job, RUN_LABEL):
                by_run.setdefault(run, []).append(job)
        return by_run

    def size_of(self, run: str, jobs: list[Json]) -> int:
        """Return the size in bytes of a run's folder and of the service's files of the run."""
        service = self.state_dir / "vertex"
        folders = [service / "jobs" / short_name(job["name"]) for job in jobs]
        return sum(map(_num_bytes, [self.root / run, service / "pipelines" / run, *folders]))

    def remove(self, run: str, *, jobs: list[Json], has_record: bool = True) -> None:
        """Remove a run that has ended: cache entries, folder, training jobs and record.

        Raises:
            ResourceError: an unfinished run uses its files.
        """
        names = {short_name(job["name"]) for job in jobs}
        folder = self.folder_of(run)
        removed = None
        with _unused(folder):
            for entry in self._entries_of(run, names):
                entry.unlink(missing_ok=True)
            if folder:  # renamed first, so that an interruption leaves no incomplete run
                removed = Path(tempfile.mkdtemp(prefix=REMOVED_PREFIX, dir=self.root))
                folder.rename(removed / run)
            if self.latest() == run:
                (self.root / LATEST).unlink(missing_ok=True)
        for name in names:
            self._delete(f"{JOB.collection}/{name}")
        if has_record:
            self._delete(f"{RUN.collection}/{run}")
        if removed:
            shutil.rmtree(removed, ignore_errors=True)

    def keep_package(self, run: str) -> None:
        """Write a run's package to its folder, which identifies it after its record is deleted."""
        folder = self.folder_of(run)
        if folder and not (folder / PACKAGE_FILE).exists():
            spec = RUN.get(self.api, run)["pipelineSpec"]
            (folder / PACKAGE_FILE).write_text(json.dumps(spec), encoding="utf-8")

    def remove_leftovers(self) -> None:
        """Remove the rest of interrupted removals, and cache entries without their files."""
        for folder in self.root.glob(f"{REMOVED_PREFIX}*"):
            if not folder.is_symlink():
                shutil.rmtree(folder, ignore_errors=True)
        for entry in self._entries():
            if is_dangling(read_entry(entry)):
                entry.unlink(missing_ok=True)

    def _entries_of(self, run: str, jobs: set[str]) -> list[Path]:
        """Return the cache entries that refer to a run's folder or training jobs."""
        return [entry for name in (run, *jobs) for entry in self._entries_by_name.get(name, ())]

    @cached_property
    def _entries_by_name(self) -> dict[str, list[Path]]:
        """The cache entries that refer to each run and training job, read once for all removals.

        `remove_leftovers` removes what runs add meanwhile.
        """
        by_name: dict[str, list[Path]] = {}
        for entry in self._entries():
            text = json.dumps(read_entry(entry), ensure_ascii=False)
            for name in self._names_in(text).union(JOB_NAME.findall(text)):
                by_name.setdefault(name, []).append(entry)
        return by_name

    def _entries(self) -> list[Path]:
        return sorted(step_cache(self.state_dir).glob("*.json"))

    def _names_in(self, text: str) -> set[str]:
        root = json.dumps(str(self.root), ensure_ascii=False)[1:-1]
        return set(re.findall(rf"{re.escape(root)}/({RUN_NAME.pattern})", text))

    def _delete(self, path: str) -> None:
        try:
            self.api.wait(self.api.delete(f"{self.api.parent}/{path}"))
        except VertexError as error:
            if error.status != "NOT_FOUND":
                raise


@contextlib.contextmanager
def _unused(folder: Path | None) -> Iterator[None]:
    """Lock a run's folders exclusively, so that no run starts to use their files.

    Raises:
        ResourceError: an unfinished run uses one.
    """
    with contextlib.ExitStack() as stack:
        for path, _, _ in os.walk(folder) if folder else ():
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ResourceError(f"an unfinished run uses files in {path}") from None
        yield


def _num_bytes(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_size
    return total


def step_cache(state_dir: Path) -> Path:
    """Return the folder of the step cache: a JSON file for each execution of a step."""
    return state_dir / "vertex" / "step_cache"


def read_entry(entry: Path) -> Json:
    """Return the content of an entry, {} if it is damaged or missing."""
    try:
        content = json.loads(entry.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def is_dangling(entry: Json) -> bool:
    """Return whether an output of an entry is missing; the folder of a pending one exists."""
    folders = (Path(path).parent for path in entry.get("pending", ()))
    files = map(Path, entry.get("files", ()))
    return not all(path.exists() for path in (*files, *folders))
