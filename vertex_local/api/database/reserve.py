"""Reserved disk space: a file that is removed when the disk is full.

SQLite needs space even to delete, for its journal. Without the reserve a full disk could not be
emptied through the service. While it is in use, requests that add data are refused.
"""

import errno
import logging
import os
import threading
from pathlib import Path

from vertex_local.errors import resource_exhausted

logger = logging.getLogger(__name__)

RESERVED_BYTES = 4 * 1024 * 1024
MIN_FREE_BYTES = 1024 * 1024
NAME = "vertex.reserve"
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Reserve:
    """Reserve of a root folder; while its file is missing, the service only reads and deletes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / NAME
        self._lock = threading.Lock()

    @property
    def is_used(self) -> bool:
        """True if the disk was full and the reserve has not been restored."""
        return not self._path.exists()

    def use_if_full(self) -> None:
        """Release the reserve if the disk is almost full."""
        if _free_bytes(self._root) < MIN_FREE_BYTES and not self.is_used:
            self.use()

    def use(self) -> None:
        """Release the reserve."""
        with self._lock:
            if self.is_used:
                return
            self._path.unlink(missing_ok=True)
        logger.warning(
            "No space left in %s: until there is, requests can only read and delete", self._root
        )

    def restore(self) -> bool:
        """Create the reserve if there is space for it; return whether it exists."""
        with self._lock:
            if not self.is_used:
                return True
            if _free_bytes(self._root) < RESERVED_BYTES + MIN_FREE_BYTES:
                return False
            return self._make()

    def require_space(self) -> None:
        """Check that data may be added.

        Raises:
            ApiError: RESOURCE_EXHAUSTED.
        """
        self.use_if_full()
        if self.is_used and not self.restore():
            free, wanted = _free_bytes(self._root), RESERVED_BYTES + MIN_FREE_BYTES
            raise resource_exhausted(
                f"No space left where the service keeps its files: {self._root} has "
                f"{free // 1024:,} KiB free, {wanted // 1024:,} KiB are needed. Until then "
                "requests can only read and delete: delete models, jobs or runs, or free space "
                "in another way, and repeat the request."
            )

    def _make(self) -> bool:
        temporary = self._path.with_suffix(".tmp")
        try:
            temporary.write_bytes(
                os.urandom(RESERVED_BYTES)
            )  # random, so that no file system compresses it
            temporary.replace(self._path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            if error.errno not in NO_SPACE:
                raise
            return False
        return True


def _free_bytes(root: Path) -> int:
    """Return the free space for this user."""
    try:
        found = os.statvfs(root)
    except FileNotFoundError:  # the folder was removed, so the service will stop
        return 0
    return found.f_frsize * (found.f_bavail if os.geteuid() else found.f_bfree)
