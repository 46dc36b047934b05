"""The cache of steps: kfp.local's, with what Vertex AI's does about artifacts that come later.

A step may describe an artifact that a later step writes, as a plan describes the model. kfp.local
drops a cached output without a file; here such an output is pending: the step counts as cached,
and a run that was interrupted in between is repeated with the same folder. Once the file is
there it is required, as any other. While a run goes on nobody else gets a pending output of it, for
two runs must not write to one folder.
"""

import fcntl
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

Json = dict[str, Any]

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
        self._locks: dict[Path, int] = {}  # held until this process ends, however it ends
        self._pending: dict[str, tuple[Any, Json]] = {}

    def get(self, cache: Any, key: str) -> Json | None:
        """Return the outputs of a key, unless another run is at work on a pending one."""
        outputs: Json | None = self._get(cache, key)
        paths = _pending_paths(outputs or {})
        if outputs is None or not all(map(self._claim, paths)):
            return None
        if paths:
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

    def _claim(self, path: Path) -> bool:
        """Take the folder of a pending output for this run; False if it is gone or in use."""
        folder = path.parent
        if folder in self._locks:
            return True
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            logger.info("another run is at work in %s", folder)
            os.close(lock)
            return False
        if self._is_written(folder):
            logger.info("a job of an earlier run still writes to %s", folder)
            os.close(lock)
            return False
        self._locks[folder] = lock
        return True


def _pending_paths(outputs: Json) -> list[Path]:
    return [
        Path(one.uri) for value in outputs.values() for one in _listed(value) if _is_pending(one)
    ]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_pending(value: Any) -> bool:
    """Whether it is an artifact of this machine that has no file yet."""
    uri = str(getattr(value, "uri", ""))
    return uri.startswith("/") and not os.path.lexists(uri)
