"""Downloads over HTTP: every wait bounded, continued where they broke off, verified at the end."""

import contextlib
import fcntl
import logging
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from components.prepare_examples.errors import DamagedError, RouteError
from components.prepare_examples.raw_data.files import CHUNK_BYTES, sha256_of
from components.prepare_examples.raw_data.progress import counted

if TYPE_CHECKING:
    import requests

CONNECT_TIMEOUT_SECONDS = 8
READ_TIMEOUT_SECONDS = 30
FILE_TIMEOUT_SECONDS = 1800
ATTEMPTS = 2

HTTP_PARTIAL = 206
HTTP_BAD_RANGE = 416

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


def twice(attempt: Callable[[], Result]) -> Result:
    """Makes an attempt, and one more if a file arrived damaged."""
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt()
        except DamagedError as error:
            logger.warning("%s; fetching it again", error)
    return attempt()


def download(url: str, path: Path, *, sha256: str) -> None:
    """Fetches one file to `path`, which appears when it is whole and verified.

    What an earlier attempt left in `.NAME.partial` is continued, if the server can do that.

    Raises:
        RouteError: it could not be fetched; DamagedError: it broke off or is another file.
    """
    with _partial_file(path) as partial:
        _continue(url, partial, name=path.name)
        check_sha256(partial, sha256, name=path.name)
        os.replace(partial, path)


def check_sha256(path: Path, sha256: str, *, name: str) -> None:
    """Deletes a file that is not the expected one, and raises DamagedError."""
    found = sha256_of(path)
    if found != sha256:
        path.unlink()
        raise DamagedError(
            f"{name} has SHA-256 {found}, expected {sha256}: truncated or tampered with, deleted"
        )


@contextlib.contextmanager
def _partial_file(path: Path) -> Iterator[Path]:
    """The file to download to; one of its own when another process is using the common one."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
        try:
            yield partial
        finally:
            if partial.exists() and partial.stat().st_size == 0:
                partial.unlink()


def _in_few_words(error: Exception) -> str:
    """What a person needs to know of a failed request; the rest is in the traceback."""
    import requests

    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the answer was {error.response.status_code}"
    return str(error)


def _continue(url: str, partial: Path, *, name: str) -> None:
    import requests

    start = partial.stat().st_size if partial.exists() else 0
    try:
        response = _open(url, {"Range": f"bytes={start}-"} if start else {})
        if response.status_code == HTTP_BAD_RANGE:
            partial.unlink()
            raise DamagedError(f"{name} could not be continued at byte {start:,}")
        response.raise_for_status()
    except (requests.RequestException, TimeoutError) as error:
        raise RouteError(_in_few_words(error)) from error
    is_continued = response.status_code == HTTP_PARTIAL
    if is_continued:
        logger.info("%s: going on after %.1f MB", name, start / 1e6)
    total = int(response.headers.get("Content-Length", 0))
    chunks = _until_late(response.iter_content(CHUNK_BYTES), url)
    try:
        with response, partial.open("ab" if is_continued else "wb") as file:
            for chunk in counted(chunks, name, total):
                file.write(chunk)
    except (requests.RequestException, TimeoutError) as error:
        raise DamagedError(f"{name} broke off: {error}") from error


def _until_late(chunks: Iterator[bytes], url: str) -> Iterator[bytes]:
    deadline = time.monotonic() + FILE_TIMEOUT_SECONDS
    for chunk in chunks:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{url} was not complete after {FILE_TIMEOUT_SECONDS} s")
        yield chunk


def _open(url: str, headers: dict[str, str]) -> "requests.Response":
    """Starts a request, within CONNECT_TIMEOUT_SECONDS in all.

    The time-out of `requests` holds for each address of a host and not for the name look-up, which
    adds up to minutes behind a firewall that drops packets. So the wait is bounded from outside.
    """
    import requests

    answer: queue.SimpleQueue[requests.Response | Exception] = queue.SimpleQueue()

    def start() -> None:
        try:
            timeouts = (CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS)
            answer.put(requests.get(url, stream=True, timeout=timeouts, headers=headers))
        except requests.RequestException as error:
            answer.put(error)

    threading.Thread(target=start, daemon=True, name="connect").start()
    try:
        response = answer.get(timeout=CONNECT_TIMEOUT_SECONDS)
    except queue.Empty:
        raise TimeoutError(f"no answer from {url} in {CONNECT_TIMEOUT_SECONDS} s") from None
    if isinstance(response, Exception):
        raise response
    return response
