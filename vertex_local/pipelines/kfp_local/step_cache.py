"""The cache of steps: kfp.local's, with what Vertex AI's does about artifacts that come later.

A step may describe an artifact that a later step writes, as a plan describes the model. kfp.local
drops a cached output without a file; here such an output is pending: the step counts as cached,
and a run that was interrupted in between is repeated with the same folder. Once the file is
there it is required, as any other.

Locks (flock, so that they end with the run's process) on the folders that hold cached outputs:
exclusive for a pending one, for two runs must not write to one folder; shared for any other, so
that whoever removes old outputs finds an exclusive lock refused while a run uses them.
"""

import fcntl
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vertex_local.json_types import Json

logger = logging.getLogger(__name__)


PENDING = "pending"


class StepCache:
    """Replacements for the methods of `kfp.local.cache.LocalCache`, for the one run of a process.

    Attributes:
        is_written: Whether a job that goes on writes to a folder.
    """

    def __init__(self, local_cache: Any, *, is_written: Callable[[Path], bool]) -> None:
        self._get = local_cache.get
        self._put = local_cache.put
        self._serialize = local_cache._serialize_artifact
        self._deserialize = local_cache._deserialize_artifact
        self._is_written = is_written
        self._locks: dict[Path, tuple[int, int]] = {}  # held until this process ends
        self._pending: dict[str, tuple[Any, Json]] = {}

    def get(self, cache: Any, key: str) -> Json | None:
        """Return the outputs of a key, unless another run is at work on a pending one."""
        outputs: Json | None = self._get(cache, key)
        if outputs is None:
            return None
        pending = _pending_paths(outputs)
        whole = [path for path in _local_paths(outputs) if path not in pending]
        if not all(map(self._claim, pending)) or not all(map(self._use, whole)):
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
        """Return an artifact as it is stored."""
        stored: Json = self._serialize(artifact)
        return {**stored, PENDING: True} if _is_pending(artifact) else stored

    def deserialize_artifact(self, stored: Json) -> Any:
        """Return a stored artifact; a pending one needs no file."""
        if not stored.get(PENDING):
            return self._deserialize(stored)
        artifact = self._deserialize({**stored, "uri": ""})  # without an address none is checked
        artifact.uri = stored["uri"]
        return artifact

    def settle(self) -> None:
        """Require from now on the files of pending outputs that have been written since."""
        for key, (cache, outputs) in list(self._pending.items()):
            if not _pending_paths(outputs):
                self._put(cache, key, outputs)
                del self._pending[key]
                for path in _local_paths(outputs):
                    self._share(path.parent)

    def _claim(self, path: Path) -> bool:
        """Take the folder of a pending output for this run; False if it is gone or in use."""
        if self._locks.get(path.parent, (0, 0))[1] == fcntl.LOCK_EX:
            return True
        if not self._lock(path.parent, fcntl.LOCK_EX):
            logger.info("another run is at work in %s", path.parent)
            return False
        if self._is_written(path.parent):
            logger.info("a job of an earlier run still writes to %s", path.parent)
            os.close(self._locks.pop(path.parent)[0])
            return False
        return True

    def _use(self, path: Path) -> bool:
        """Keep an output from being removed while this run goes on; False if it is gone."""
        return self._lock(path.parent, fcntl.LOCK_SH) and path.exists()

    def _share(self, folder: Path) -> None:
        """Let other runs use a folder that this one has written."""
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
    """Return the files and folders of this machine that the outputs name."""
    artifacts = (one for value in outputs.values() for one in _listed(value))
    uris = (str(getattr(one, "uri", "")) for one in artifacts)
    return [Path(uri) for uri in uris if uri.startswith("/")]


def _pending_paths(outputs: Json) -> list[Path]:
    return [path for path in _local_paths(outputs) if not path.exists()]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_pending(artifact: Any) -> bool:
    """Whether it is on this machine and has no file yet."""
    uri = str(artifact.uri)
    return uri.startswith("/") and not Path(uri).exists()
