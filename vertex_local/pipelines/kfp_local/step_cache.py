"""Step cache: kfp.local's, extended for artifacts that a later step writes.

A step may output an artifact that a later step writes, as a plan names the folder of the model.
kfp.local drops a cached output without a file. Here, as on Vertex AI, the step is cached and that
output is pending: if the run is interrupted, the next run continues with the same folder. Once
the file exists, the output is like any other and needs its file.

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
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from vertex_local import Json
from vertex_local.api.resource_names import ResourceName
from vertex_local.pipelines.run_state import PipelineRun, as_list

logger = logging.getLogger(__name__)

PENDING = "pending"
# Of an entry's outputs so many bytes are hashed, 0.3 s at 0.8 GB/s; of later files only the size
# and the time of the last change are compared.
HASHED_BYTES = 1 << 28
CHANGED = " bytes, changed "
PREFIX_DIGITS = 16


class StepCache:
    """Replacements for the methods of `kfp.local.cache.LocalCache`, for the one run of a process.

    Args:
        local_cache: The class LocalCache.
        run: The run, for the names and notes of its tasks.
        job: Its PipelineJob with the checked specification. If it `refreshesCache`, every step is
            executed, and replaces the outputs of steps that earlier runs have cached.
        is_being_written: Returns whether an unfinished job writes to a folder.
    """

    def __init__(
        self,
        local_cache: Any,
        *,
        run: PipelineRun,
        job: Json,
        is_being_written: Callable[[Path], bool],
    ) -> None:
        self._compute_key = local_cache.compute_key
        self._put = local_cache.put
        self._serialize = local_cache._serialize_artifact
        self._deserialize = local_cache._deserialize_artifact
        self._run = run
        self._spec: Json = job["pipelineSpec"]
        self._parent = ResourceName.from_name(job["name"]).parent
        self._refreshes = bool(job.get("refreshesCache"))
        self._is_being_written = is_being_written
        self._locks: dict[Path, tuple[int, int]] = {}  # held until this process ends
        self._pending: dict[str, tuple[Any, str, Json]] = {}  # with the name of the step

    def compute_key(self, cache: Any, component_name: str, custom: str | None, **facts: Any) -> str:
        """Return a step's key; its first digits are equal for all inputs of the component.

        `facts` are image, full_command, arguments and env_vars of the step.
        """
        scope = [self._parent, self._spec["pipelineInfo"]["name"], component_name]
        outputs = self._spec["components"][component_name].get("outputDefinitions")
        if custom:
            code = {name: value for name, value in facts.items() if name != "arguments"}
            custom = json.dumps([custom, code], sort_keys=True)
        key: str = self._compute_key(
            cache,
            component_name=json.dumps([*scope, outputs], sort_keys=True),
            custom_cache_key=custom,
            **facts,
        )
        return f"{_digest(scope)[:PREFIX_DIGITS]}-{key}"

    def get(self, cache: Any, key: str) -> Json | None:
        """Return the outputs of a key; None if there are none or another run writes to them.

        An entry that is damaged, or has outputs that are, is dropped.
        """
        entry = Path(cache._entry_path(key))
        if self._refreshes or not entry.exists():
            return None
        try:
            content = json.loads(entry.read_bytes())
            if content.pop("digest") != _digest(content):
                raise ValueError("its checksum differs")
            outputs: Json = cache._deserialize_outputs(content["outputs"])
        except Exception as error:  # of any kind: the content of a damaged entry is arbitrary
            self._drop(entry, f"{entry} cannot be used: {error}")
            return None
        pending = _pending_paths(outputs)
        complete = [path for path in _local_paths(outputs) if path not in pending]
        if not all(map(self._claim, pending)) or not all(map(self._use, complete)):
            return None
        if damaged := _first_damaged(content["files"]):
            self._drop(entry, f"{damaged} has changed or is missing")
            return None
        if pending:
            self._pending[key] = (cache, self._step, outputs)
        return outputs

    def put(self, cache: Any, key: str, outputs: Json) -> None:
        """Store the outputs of a key; those without a file are pending."""
        prefix = key.partition("-")[0]
        if self._refreshes and not any(Path(cache.cache_root).glob(f"{prefix}-*.json")):
            return  # the pipeline does not cache this step
        if paths := _pending_paths(outputs):
            for path in paths:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._claim(path)
            self._pending[key] = (cache, self._step, outputs)
        self._write(cache, key, self._step, outputs)

    def serialize_artifact(self, artifact: Any) -> Json:
        """Return an artifact as JSON for the cache."""
        stored: Json = self._serialize(artifact)
        return {**stored, PENDING: True} if _is_pending(artifact) else stored

    def deserialize_artifact(self, stored: Json) -> Any:
        """Return an artifact from its JSON; a pending one needs no file."""
        if not stored.get(PENDING):
            return self._deserialize(stored)
        artifact = self._deserialize({**stored, "uri": ""})  # kfp checks the file of a URI
        artifact.uri = stored["uri"]
        return artifact

    def complete_pending(self) -> None:
        """Store pending outputs whose files now exist as complete."""
        for key, (cache, step, outputs) in list(self._pending.items()):
            if not _pending_paths(outputs):
                self._write(cache, key, step, outputs)
                del self._pending[key]
                for path in _local_paths(outputs):
                    self._share(path.parent)

    @property
    def _step(self) -> str:
        task = self._run.current
        return task.leaf.display_name if task else ""

    def _write(self, cache: Any, key: str, step: str, outputs: Json) -> None:
        pending = _pending_paths(outputs)
        content = {
            "pipeline": self._spec["pipelineInfo"]["name"],
            "step": step,
            "outputs": cache._serialize_outputs(outputs),
            "files": _checksums(path for path in _local_paths(outputs) if path not in pending),
        }
        self._put(cache, key, {**content, "digest": _digest(content)})

    def _drop(self, entry: Path, reason: str) -> None:
        """Remove an entry; write the reason to the task's log and the journal."""
        entry.unlink(missing_ok=True)
        note = f"its cached output was dropped: {reason}"
        logger.warning("%s: %s", self._step, note)
        if task := self._run.current:
            task.note = note
            task.log_path.parent.mkdir(parents=True, exist_ok=True)
            with task.log_path.open("a") as log:
                log.write(f"{note}\n")

    def _claim(self, path: Path) -> bool:
        """Lock the folder of a pending output for this run; False if it is missing or in use."""
        if self._locks.get(path.parent, (0, 0))[1] == fcntl.LOCK_EX:
            return True
        if not self._lock(path.parent, fcntl.LOCK_EX):
            logger.info("another run uses %s", path.parent)
            return False
        if self._is_being_written(path.parent):
            logger.info("a job of an earlier run still writes to %s", path.parent)
            os.close(self._locks.pop(path.parent)[0])
            return False
        return True

    def _use(self, path: Path) -> bool:
        """Protect an output from removal during this run; False if it is missing."""
        return self._lock(path.parent, fcntl.LOCK_SH) and path.exists()

    def _share(self, folder: Path) -> None:
        """Let other runs use a folder that this run has written."""
        if folder in self._locks:
            lock, _ = self._locks[folder]
            fcntl.flock(lock, fcntl.LOCK_SH)
            self._locks[folder] = (lock, fcntl.LOCK_SH)

    def _lock(self, folder: Path, kind: int) -> bool:
        held = self._locks.get(folder)
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
        self._locks[folder] = (lock, kind)
        return True


def _local_paths(outputs: Json) -> list[Path]:
    """Return the local paths of the outputs."""
    artifacts = (one for value in outputs.values() for one in as_list(value))
    uris = (str(getattr(one, "uri", "")) for one in artifacts)
    return [Path(uri) for uri in uris if uri.startswith("/")]


def _pending_paths(outputs: Json) -> list[Path]:
    return [path for path in _local_paths(outputs) if not path.exists()]


def _is_pending(artifact: Any) -> bool:
    """Return whether its URI is local and does not exist yet."""
    uri = str(artifact.uri)
    return uri.startswith("/") and not Path(uri).exists()


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _checksums(paths: Iterable[Path]) -> dict[str, str]:
    """Return the checksum of each file of some outputs."""
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
