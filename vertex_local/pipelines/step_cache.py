"""Step cache: outputs of steps, which later runs with the same inputs use.

A step may output an artifact that a later step writes, as a plan names the folder of the model.
As on Vertex AI, the step is cached nevertheless, and that output is pending: if the run is
interrupted, the next run continues with the same folder. Once the file exists, the output is like
any other and needs its file.

The folders of cached outputs are locked (with flock, so the locks end with the run's process):
exclusively for a pending output, so that no two runs write to one folder; shared for others, so
that a process that takes an exclusive lock to remove old outputs fails while a run uses them.

Runs share the cache if their pipelines have the same name, project and location, as on Vertex AI
(https://cloud.google.com/vertex-ai/docs/pipelines/configure-caching). A `cache_key` replaces the
inputs in a step's key, not its component. An entry has checksums of its outputs' files and of
itself: a damaged one is dropped, and the step is executed.
"""

import fcntl
import hashlib
import itertools
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vertex_local import Json
from vertex_local.api.resource_names import ResourcePath
from vertex_local.pipelines.run_state import Task
from vertex_local.rules.values import CODE, TaskValues

logger = logging.getLogger(__name__)

# Of an entry's outputs so many bytes are hashed, 0.3 s at 0.8 GB/s; of later files only the size
# and the time of the last change are compared.
HASHED_BYTES = 1 << 28
CHANGED = " bytes, changed "
PREFIX_DIGITS = 16


class StepCache:
    """Step cache, for the one run of a process; thread-safe.

    If the job `refreshesCache`, every step is executed, and replaces the outputs of steps that
    earlier runs have cached. `is_being_written` says whether an unfinished job writes to a folder.
    """

    def __init__(
        self, folder: Path, *, job: Json, is_being_written: Callable[[Path], bool]
    ) -> None:
        self._folder = folder
        self._spec: Json = job["pipelineSpec"]
        self._parent = ResourcePath.from_name(job["name"]).parent
        self._refreshes = bool(job.get("refreshesCache"))
        self._is_being_written = is_being_written
        self._mutex = threading.RLock()
        self.locks: dict[Path, tuple[int, int]] = {}  # held until this process ends
        self._pending: dict[str, TaskValues] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def key(self, component_name: str, container: Json, inputs: TaskValues, *, custom: str) -> str:
        """Return a step's key; its first digits are equal for all inputs of the component."""
        scope = [self._parent, self._spec["pipelineInfo"]["name"], component_name]
        code = [container.get(name) for name in CODE]
        component = self._spec["components"][component_name]
        facts = [scope, component, code, custom or [inputs.parameters, inputs.artifacts]]
        return f"{_digest(scope)[:PREFIX_DIGITS]}-{_digest(facts)}"

    def get(self, key: str, task: Task) -> TaskValues | None:
        """Return the outputs of a key; None if there are none or another run writes to them.

        An entry that is damaged, or has outputs that are, is dropped; `task` gets a note.
        """
        entry = self._entry(key)
        with self._mutex:
            if self._refreshes or not entry.exists():
                return None
            try:
                content = json.loads(entry.read_bytes())
                if content.pop("digest") != _digest(content):
                    raise ValueError("its checksum differs")
                outputs = TaskValues(**content["outputs"])
                waiting = [path for uri in content["pending"] if not (path := Path(uri)).exists()]
                complete = [path for path in _local_paths(outputs) if path not in waiting]
            except Exception as error:  # of any kind: the content of a damaged entry is arbitrary
                _drop(entry, f"{entry} cannot be used: {error}", task)
                return None
            if not all(map(self._claim, waiting)) or not all(map(self._use, complete)):
                return None
            if damaged := _first_damaged(content["files"]):
                _drop(entry, f"{damaged} has changed or is missing", task)
                return None
            if waiting:
                self._pending[key] = outputs
            return outputs

    def put(self, key: str, outputs: TaskValues) -> None:
        """Store the outputs of a key; those without a file are pending.

        Raises:
            OSError: They cannot be stored.
        """
        prefix = key.partition("-")[0]
        if self._refreshes and not any(self._folder.glob(f"{prefix}-*.json")):
            return  # the pipeline does not cache this step
        with self._mutex:
            if paths := _pending_paths(outputs):
                for path in paths:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    self._claim(path)
                self._pending[key] = outputs
            self._write(key, outputs)

    def complete_pending(self) -> None:
        """Store pending outputs whose files now exist as complete."""
        with self._mutex:
            for key, outputs in list(self._pending.items()):
                if not _pending_paths(outputs):
                    self._write(key, outputs)
                    del self._pending[key]
                    for path in _local_paths(outputs):
                        self._share(path.parent)

    def _entry(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _write(self, key: str, outputs: TaskValues) -> None:
        pending = _pending_paths(outputs)
        content = {
            "outputs": asdict(outputs),
            "pending": sorted(map(str, pending)),
            "files": _checksums(path for path in _local_paths(outputs) if path not in pending),
        }
        draft = self._folder / f"{key}.{os.getpid()}.tmp"  # runs may store one key at a time
        try:
            draft.write_text(json.dumps({**content, "digest": _digest(content)}))
            draft.replace(self._entry(key))
        finally:
            draft.unlink(missing_ok=True)

    def _claim(self, path: Path) -> bool:
        """Lock the folder of a pending output for this run; False if it is missing or in use."""
        if self.locks.get(path.parent, (0, 0))[1] == fcntl.LOCK_EX:
            return True
        if not self._lock(path.parent, fcntl.LOCK_EX):
            logger.info("another run uses %s", path.parent)
            return False
        if self._is_being_written(path.parent):
            logger.info("a job of an earlier run still writes to %s", path.parent)
            os.close(self.locks.pop(path.parent)[0])
            return False
        return True

    def _use(self, path: Path) -> bool:
        """Protect an output from removal during this run; False if it is missing."""
        return self._lock(path.parent, fcntl.LOCK_SH) and path.exists()

    def _share(self, folder: Path) -> None:
        """Let other runs use a folder that this run has written."""
        if folder in self.locks:
            lock, _ = self.locks[folder]
            fcntl.flock(lock, fcntl.LOCK_SH)
            self.locks[folder] = (lock, fcntl.LOCK_SH)

    def _lock(self, folder: Path, kind: int) -> bool:
        held = self.locks.get(folder)
        if held and held[1] in (kind, fcntl.LOCK_EX):
            return True
        try:
            lock = held[0] if held else os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return False
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except OSError:
            if not held:
                os.close(lock)
            return False
        self.locks[folder] = (lock, kind)
        return True


def _drop(entry: Path, reason: str, task: Task) -> None:
    """Remove an entry; write the reason to the task's log and the journal."""
    entry.unlink(missing_ok=True)
    task.note = f"its cached output was dropped: {reason}"
    logger.warning("%s: %s", task.leaf.display_name, task.note)
    task.log_path.parent.mkdir(parents=True, exist_ok=True)
    with task.log_path.open("a") as log:
        log.write(f"{task.note}\n")


def _local_paths(outputs: TaskValues) -> list[Path]:
    artifacts = itertools.chain.from_iterable(outputs.artifacts.values())
    paths = [Path(artifact["uri"]) for artifact in artifacts]
    return [path for path in paths if path.is_absolute()]


def _pending_paths(outputs: TaskValues) -> list[Path]:
    return [path for path in _local_paths(outputs) if not path.exists()]


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _checksums(paths: Iterable[Path]) -> dict[str, str]:
    checksums, num_left = {}, HASHED_BYTES
    for file in sorted({file for path in paths for file in _files(path)}):
        num_left -= file.stat().st_size
        checksums[str(file)] = _checksum(file, is_hashed=num_left >= 0)
    return checksums


def _checksum(file: Path, *, is_hashed: bool) -> str:
    """Return a file's SHA-256, or its size and the time of its last change."""
    if not is_hashed:
        status = file.stat()
        return f"{status.st_size}{CHANGED}{status.st_mtime_ns}"
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _first_damaged(checksums: dict[str, str]) -> str:
    """Return the first file that has changed or is missing, or ""; ignore files added later."""
    for name, checksum in checksums.items():
        try:
            if _checksum(Path(name), is_hashed=CHANGED not in checksum) != checksum:
                return name
        except OSError:
            return name
    return ""


def _files(path: Path) -> Iterator[Path]:
    """Yield an output's regular files: itself, or those in the folder."""
    if path.is_file():
        yield path
    for folder, _, names in os.walk(path):
        yield from (file for name in names if (file := Path(folder, name)).is_file())
