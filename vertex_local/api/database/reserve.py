"""Space kept for the day when the disk is full: a file that is removed then.

SQLite needs space to delete as well, for its journal. Without the reserve a full disk could not be
emptied through the service; with it gone, whatever adds something is refused until space is back.
"""

import errno
import logging
import os
import threading
from pathlib import Path

from vertex_local.errors import resource_exhausted

logger = logging.getLogger(__name__)

RESERVED_BYTES = 4 * 1024 * 1024
LEAST_FREE_BYTES = 1024 * 1024
NAME = "vertex.reserve"
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Reserve:
    """The reserve of a root folder; while it is not there, the service only reads and deletes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / NAME
        self._lock = threading.Lock()

    @property
    def is_used(self) -> bool:
        """Tell whether the disk was found full, and space is not back."""
        return not self._path.exists()

    def use_if_full(self) -> None:
        """Give the reserve up if hardly any other space is left."""
        if _free_bytes(self._root) < LEAST_FREE_BYTES and not self.is_used:
            self.use()

    def use(self) -> None:
        """Give the reserve up."""
        with self._lock:
            if self.is_used:
                return
            self._path.unlink(missing_ok=True)
        logger.warning("No space left in %s: only reading and deleting works now", self._root)

    def restore(self) -> bool:
        """Make the reserve if there is space for it; return whether it is there."""
        with self._lock:
            if not self.is_used:
                return True
            if _free_bytes(self._root) < RESERVED_BYTES + LEAST_FREE_BYTES:
                return False
            return self._make()

    def demand(self) -> None:
        """Check that something may be added.

        Raises:
            ApiError: RESOURCE_EXHAUSTED.
        """
        self.use_if_full()
        if self.is_used and not self.restore():
            free, wanted = _free_bytes(self._root), RESERVED_BYTES + LEAST_FREE_BYTES
            raise resource_exhausted(
                f"No space left where the service keeps its files: {self._root} has "
                f"{free // 1024:,} KiB free, {wanted // 1024:,} KiB are needed. Until then the "
                "service only reads and deletes: delete models, jobs or runs, or make space "
                "otherwise, and repeat the request."
            )

    def _make(self) -> bool:
        temporary = self._path.with_suffix(".tmp")
        try:
            temporary.write_bytes(os.urandom(RESERVED_BYTES))  # no file system makes it smaller
            temporary.replace(self._path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            if error.errno not in NO_SPACE:
                raise
            return False
        return True


def _free_bytes(root: Path) -> int:
    """Return the space that this user may fill."""
    try:
        found = os.statvfs(root)
    except FileNotFoundError:  # the service is about to end, as its folder was removed
        return 0
    return found.f_frsize * (found.f_bavail if os.geteuid() else found.f_bfree)
