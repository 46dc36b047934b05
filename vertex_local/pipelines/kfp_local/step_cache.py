"""Step cache: kfp.local's, extended for artifacts that a later step writes.

A step may output an artifact that a later step writes, as a plan names the folder of the model.
kfp.local drops a cached output without a file. Here, as on Vertex AI, the step is cached and that
output is pending: if the run is interrupted, the next run continues with the same folder. Once
the file exists, the output is like any other and needs its file.

The folders of cached outputs are locked (with flock, so the locks end with the run's process):
exclusively for a pending output, so that no two runs write to one folder; shared for others, so
that a process that takes an exclusive lock to remove old outputs fails while a run uses them.
"""

import fcntl
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vertex_local import Json
from vertex_local.pipelines.run_state import as_list

logger = logging.getLogger(__name__)

PENDING = "pending"


class StepCache:
    """Replacements for the methods of `kfp.local.cache.LocalCache`, for the one run of a process.

    `is_being_written` returns whether an unfinished job writes to a folder.
    """

    def __init__(self, local_cache: Any, *, is_being_written: Callable[[Path], bool]) -> None:
        self._get = local_cache.get
        self._put = local_cache.put
        self._serialize = local_cache._serialize_artifact
        self._deserialize = local_cache._deserialize_artifact
        self._is_being_written = is_being_written
        self._locks: dict[Path, tuple[int, int]] = {}  # held until this process ends
        self._pending: dict[str, tuple[Any, Json]] = {}

    def get(self, cache: Any, key: str) -> Json | None:
        """Return the outputs of a key; None if there are none or another run writes to them."""
        outputs: Json | None = self._get(cache, key)
        if outputs is None:
            return None
        pending = _pending_paths(outputs)
        complete = [path for path in _local_paths(outputs) if path not in pending]
        if not all(map(self._claim, pending)) or not all(map(self._use, complete)):
            return None
        if pending:
            self._pending[key] = (cache, outputs)
        return outputs

    def put(self, cache: Any, key: str, outputs: Json) -> None:
        """Store the outputs of a key; those without a file are pending."""
        if paths := _pending_paths(outputs):
            for path in paths:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._claim(path)
            self._pending[key] = (cache, outputs)
        self._put(cache, key, outputs)

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
        for key, (cache, outputs) in list(self._pending.items()):
            if not _pending_paths(outputs):
                self._put(cache, key, outputs)
                del self._pending[key]
                for path in _local_paths(outputs):
                    self._share(path.parent)

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
