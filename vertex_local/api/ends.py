"""Records of ends, which are retried until they are written: a disk may be full for a while."""

import logging
import sqlite3
import threading
from collections.abc import Callable

from vertex_local.api.service import Service
from vertex_local.errors import is_full_disk

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0


def settle(service: Service, name: str, record: Callable[[], object]) -> None:
    """Record the end of a run or operation; if that fails now, retry in a thread."""
    if not is_recorded(name, record):
        threading.Thread(target=retry, args=(service, name, record), name=name, daemon=True).start()


def retry(service: Service, name: str, record: Callable[[], object]) -> None:
    """Retry to record an end, until that succeeds or is left to the next service."""
    while not service.ending.wait(RETRY_SECONDS):
        if is_recorded(name, record):
            return


def is_recorded(name: str, record: Callable[[], object]) -> bool:
    """Record an end; return False if a retry may succeed."""
    try:
        record()
    except Exception as error:
        may_retry = is_full_disk(error) or isinstance(error, (OSError, sqlite3.Error))
        after = f"retrying every {RETRY_SECONDS:g} s" if may_retry else "it stays unfinished"
        logger.warning("The end of %s cannot be recorded; %s", name, after, exc_info=error)
        return not may_retry
    return True
