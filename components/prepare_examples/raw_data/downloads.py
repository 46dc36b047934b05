"""Downloads over HTTP, with bounded waits, resumed after an interruption and verified.

Not pooch: it cannot resume, overwrites a file of another checksum, and does not bound the time to
connect.
"""

import contextlib
import fcntl
import functools
import logging
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import requests

from components.prepare_examples.errors import DamagedError, RouteError
from components.prepare_examples.raw_data.files import CHUNK_BYTES, check_sha256
from components.prepare_examples.raw_data.progress import ProgressLines

CONNECT_TIMEOUT_SECONDS = 8
READ_TIMEOUT_SECONDS = 30
FILE_TIMEOUT_SECONDS = 1800
MEGABYTE = 1_000_000

HTTP_PARTIAL = 206
HTTP_BAD_RANGE = 416

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


def twice(fetch: Callable[..., Result]) -> Callable[..., Result]:
    """Return a function that repeats `fetch` once if a file arrives damaged."""

    @functools.wraps(fetch)
    def fetch_twice(*args: Any, **kwargs: Any) -> Result:
        try:
            return fetch(*args, **kwargs)
        except DamagedError as error:
            logger.warning("%s; retrying", error)
            return fetch(*args, **kwargs)

    return fetch_twice


@twice
def download(url: str, path: Path, *, sha256: str) -> None:
    """Download a file to `path`, which appears when it is complete and verified.

    An earlier attempt's `.NAME.partial` is resumed if the server supports it.

    Raises:
        RouteError: the download failed; DamagedError: it was interrupted, or its checksum differs.
    """
    with _partial_file(path) as partial:
        _resume(url, partial, name=path.name)
        check_sha256(partial, sha256, name=path.name)
        os.replace(partial, path)


@contextlib.contextmanager
def _partial_file(path: Path) -> Iterator[Path]:
    """Yield the file to download to; a new one if another process is using the common one."""
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


def _reason(error: Exception) -> str:
    if isinstance(error, requests.Timeout):
        return "timed out"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server returned {error.response.status_code}"
    return str(error)


def _resume(url: str, partial: Path, *, name: str) -> None:
    start = partial.stat().st_size if partial.exists() else 0
    try:
        response = _open(url, {"Range": f"bytes={start}-"} if start else {})
        if response.status_code == HTTP_BAD_RANGE:
            partial.unlink()
            raise DamagedError(f"{name} could not be resumed at byte {start:,}")
        response.raise_for_status()
    except (requests.RequestException, TimeoutError) as error:
        raise RouteError(_reason(error)) from error
    is_resumed = response.status_code == HTTP_PARTIAL
    if is_resumed:
        logger.info("%s: resuming after %.1f MB", name, start / 1e6)
    num_bytes = int(response.headers.get("Content-Length", 0))
    logger.info("downloading %s%s", name, f" ({num_bytes / 1e6:.1f} MB)" if num_bytes else "")
    deadline, done = time.monotonic() + FILE_TIMEOUT_SECONDS, 0
    progress = ProgressLines(name, "MB", num_bytes // MEGABYTE)
    try:
        with response, partial.open("ab" if is_resumed else "wb") as file:
            for chunk in response.iter_content(CHUNK_BYTES):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{url} was incomplete after {FILE_TIMEOUT_SECONDS} s")
                file.write(chunk)
                done += len(chunk)
                progress.show(done // MEGABYTE)
    except (requests.RequestException, TimeoutError) as error:
        raise DamagedError(f"the download of {name} was interrupted: {error}") from error


def _open(url: str, headers: dict[str, str]) -> requests.Response:
    """Start a request and return its response, within CONNECT_TIMEOUT_SECONDS in all.

    The timeout of `requests` applies to each address of a host, and not to the name lookup: behind
    a firewall that drops packets they add up to minutes. So a thread makes the request.
    """
    result: queue.SimpleQueue[requests.Response | Exception] = queue.SimpleQueue()

    def start() -> None:
        try:
            timeouts = (CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS)
            result.put(requests.get(url, stream=True, timeout=timeouts, headers=headers))
        except requests.RequestException as error:
            result.put(error)

    threading.Thread(target=start, daemon=True, name="connect").start()
    try:
        response = result.get(timeout=CONNECT_TIMEOUT_SECONDS)
    except queue.Empty:
        raise TimeoutError(f"no response from {url} in {CONNECT_TIMEOUT_SECONDS} s") from None
    if isinstance(response, Exception):
        raise response
    return response
