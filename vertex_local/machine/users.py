"""Ends a service that nobody uses any more.

Every user holds a shared lock on ROOT/users, which the kernel releases when the user ends, however
it ends. The service waits for the exclusive one, and holds it until its own process has gone: a new
user waits for its shared lock meanwhile and finds no service that is about to end.
ROOT/ends-when-unused is there as long as the service is to end so: a user that removes it keeps
the service.
"""

import fcntl
import logging
import threading
from pathlib import Path
from typing import IO

logger = logging.getLogger(__name__)

USERS_FILE = "users"
ENDS_WHEN_UNUSED_FILE = "ends-when-unused"


def announce(root: Path, *, is_while_used: bool) -> None:
    """Say whether the service is to end with its last user, whatever the one before it did."""
    path = root / ENDS_WHEN_UNUSED_FILE
    path.touch() if is_while_used else path.unlink(missing_ok=True)


def end_when_unused(root: Path, stop: threading.Event) -> IO[str]:
    """Set `stop` once there is no user and nobody has kept the service.

    The file that is returned holds the lock then; keep it until the process ends.
    """
    file = (root / USERS_FILE).open("a", encoding="utf-8")
    threading.Thread(target=_wait, args=(root, file, stop), name="users", daemon=True).start()
    return file


def stays(root: Path) -> bool:
    """Return whether the service goes on without users; one whose folder was removed does not."""
    return root.exists() and not (root / ENDS_WHEN_UNUSED_FILE).exists()


def _wait(root: Path, file: IO[str], stop: threading.Event) -> None:
    fcntl.flock(file, fcntl.LOCK_EX)  # in the kernel, without a look now and then
    if stays(root):
        fcntl.flock(file, fcntl.LOCK_UN)
        return
    logger.info("Stopping: nobody uses this service any more")
    stop.set()
