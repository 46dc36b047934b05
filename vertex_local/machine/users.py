"""Stop of a service when its last user ends (`client.py` has the files and their rules).

The service waits for the exclusive lock and holds it until its own process has ended, so that a new
user, which waits for its shared lock, never finds a service that is about to stop.
"""

import fcntl
import logging
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

from vertex_local.client import ENDS_WHEN_UNUSED_FILE, USERS_FILE

logger = logging.getLogger(__name__)


def announce(root: Path, *, is_while_used: bool) -> None:
    """Set whether the service stops with its last user, for a service that is starting."""
    path = root / ENDS_WHEN_UNUSED_FILE
    path.touch() if is_while_used else path.unlink(missing_ok=True)


def end_when_unused(root: Path, stop: threading.Event) -> IO[str]:
    """Set `stop` once there are no users, unless one has kept the service running.

    The returned file then holds the lock; keep it open until the process ends.
    """
    file = (root / USERS_FILE).open("a", encoding="utf-8")
    threading.Thread(target=_wait, args=(root, file, stop), name="users", daemon=True).start()
    return file


def join(root: Path) -> IO[str]:
    """Make the service a user of itself until the returned file is closed, or it is stopping."""
    file = (root / USERS_FILE).open("a", encoding="utf-8")
    with suppress(BlockingIOError):  # it is stopping: the last user has ended
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return file


def stays(root: Path) -> bool:
    """Return whether the service keeps running without users; False if its root was removed."""
    return root.exists() and not (root / ENDS_WHEN_UNUSED_FILE).exists()


def _wait(root: Path, file: IO[str], stop: threading.Event) -> None:
    fcntl.flock(file, fcntl.LOCK_EX)  # blocks in the kernel, without polling
    if stays(root):
        fcntl.flock(file, fcntl.LOCK_UN)
        return
    logger.info("Stopping: the last user of this service has ended")
    stop.set()
