"""Reserved disk space: a file that is removed when the disk is full.

SQLite needs space even to delete, for its journal. Without the reserve a full disk could not be
emptied through the service. While it is in use, requests that add data are refused.
"""

import errno
import logging
import os
import resource
import sys
import threading
from pathlib import Path

from vertex_local.errors import ApiError

logger = logging.getLogger(__name__)

RESERVED_BYTES = 4 * 1024 * 1024
MIN_FREE_BYTES = 1024 * 1024
NAME = "vertex.reserve"
MIN_FREE_FILES = 16
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
        if not _has_space(self._root, MIN_FREE_BYTES) and not self.is_used:
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
            if not _has_space(self._root, RESERVED_BYTES + MIN_FREE_BYTES):
                return False
            return self._make()

    def shortage(self) -> str:
        """Return a description of the missing space; empty if data may be added."""
        self.use_if_full()
        if not self.is_used or self.restore():
            return ""
        limit, wanted = resource.getrlimit(resource.RLIMIT_FSIZE)[0], RESERVED_BYTES
        if limit != resource.RLIM_INFINITY and limit < wanted:
            return (
                f"Files of the service may have {limit // 1024:,} KiB (ulimit -f), and "
                f"{wanted // 1024:,} KiB are needed: raise the limit and restart the service."
            )
        free_bytes, free_files = _free(self._root)
        return (
            f"No space left where the service keeps its files: {self._root} has "
            f"{free_bytes // 1024:,} KiB and {free_files:,} files free; "
            f"{(wanted + MIN_FREE_BYTES) // 1024:,} KiB and {MIN_FREE_FILES} files are needed."
        )

    def require_space(self) -> None:
        """Check that data may be added.

        Raises:
            ApiError: RESOURCE_EXHAUSTED.
        """
        if shortage := self.shortage():
            raise ApiError(
                "RESOURCE_EXHAUSTED",
                f"{shortage} Until then requests can only read and delete: delete models, jobs or "
                "runs, or free space in another way, and repeat the request.",
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


def _has_space(root: Path, needed_bytes: int) -> bool:
    free_bytes, free_files = _free(root)
    return free_bytes >= needed_bytes and free_files >= MIN_FREE_FILES


def _free(root: Path) -> tuple[int, int]:
    """Return the bytes and files that this user may add; file systems may not count files."""
    try:
        status = os.statvfs(root)
    except FileNotFoundError:  # the folder was removed, so the service will stop
        return 0, 0
    is_root = not os.geteuid()
    free_bytes = status.f_frsize * (status.f_bfree if is_root else status.f_bavail)
    if not status.f_files:
        return free_bytes, sys.maxsize
    return free_bytes, status.f_ffree if is_root else status.f_favail
