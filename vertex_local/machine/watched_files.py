"""Files of imported modules: whether they have changed, at the cost of one read where possible.

Thousands of stat(2) calls before each fork took a tenth of the time of a short pipeline run. The
kernel reports changes in the files' folders instead (inotify(7)); after a report, the files are
compared. It does not report changes by other hosts on a network drive, nor the renaming of a folder
far above a file, so they are compared every few seconds as well.
"""

import ctypes
import math
import os
import time
from collections.abc import Iterable

# <sys/inotify.h>
IN_MODIFY, IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO = 0x2, 0x4, 0x40, 0x80
IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF = 0x100, 0x200, 0x400, 0x800
CHANGES = (
    (IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO)
    | (IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF)
)  # fmt: skip
MAX_REPORT_BYTES = 65_536
COMPARE_SECONDS = 5.0


class WatchedFiles:
    """Files as they were when this was made.

    `is_watched`: the kernel reports changes; if not, each question compares all files.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        paths = set(paths)
        # Watched first: a change between the two is reported.
        self._reports_fd = _watch({os.path.dirname(path) for path in paths}, paths)
        self._files = {path: found for path in paths if (found := _signature(path))}
        self._compared = time.monotonic()  # when they were last found unchanged

    @property
    def is_watched(self) -> bool:
        """True if the kernel reports changes."""
        return self._reports_fd >= 0

    def are_unchanged(self) -> bool:
        """Return whether all files have the time and the size that they had."""
        is_recent = time.monotonic() - self._compared < COMPARE_SECONDS
        if self.is_watched and is_recent and not self._is_reported():
            return True
        self._compared = -math.inf
        if any(_signature(path) != signature for path, signature in self._files.items()):
            return False
        self._compared = time.monotonic()
        return True

    def _is_reported(self) -> bool:
        """Return whether a folder has changed since the last call."""
        try:
            return bool(os.read(self._reports_fd, MAX_REPORT_BYTES))
        except BlockingIOError:
            return False


def _watch(folders: set[str], paths: set[str]) -> int:
    """Return a file descriptor with reports of changes; -1 if the system does not allow it.

    Nor if a file is a symbolic link, whose target may be in any folder.
    """
    if any(map(os.path.islink, paths)):
        return -1
    libc = ctypes.CDLL(None)
    fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    for folder in folders if fd >= 0 else ():
        if libc.inotify_add_watch(fd, os.fsencode(folder), CHANGES) < 0:
            os.close(fd)
            return -1
    return fd


def _signature(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
