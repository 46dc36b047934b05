"""Post of a run's summary to a webhook, with a limit on the total time."""

import logging
import queue
import threading
from urllib.parse import urlsplit

import requests

from components.run_summary.settings import without_path

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0


def post_summary(url: str, summary: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
    """Post a summary (JSON) once; return an error message, "" on success.

    A server that sends one byte at a time never triggers the timeout of a socket. So the request is
    made in a thread, which is abandoned after the timeout.
    """
    results: queue.Queue[str] = queue.Queue()
    sender = threading.Thread(
        target=lambda: results.put(_post(url, summary, timeout_seconds)), daemon=True
    )
    sender.start()
    try:
        problem = results.get(timeout=timeout_seconds)
    except queue.Empty:
        problem = _no_response(timeout_seconds)
    place = without_path(url)
    if problem:
        return f"the webhook {place} did not take the run's summary: {problem}"
    logger.info("posted the run's summary to %s", place)
    return ""


def _post(url: str, summary: str, timeout_seconds: float) -> str:
    """Send the request; error messages leave out the URL, whose path may be a secret."""
    try:
        with requests.Session() as session:
            session.trust_env = not _is_loopback(url)  # no proxy for this machine's own servers
            response = session.post(
                url,
                data=summary.encode(),
                headers={"Content-Type": "application/json"},
                timeout=timeout_seconds,
                allow_redirects=False,
                stream=True,  # the response's body is not read
            )
    except requests.Timeout:
        return _no_response(timeout_seconds)
    except requests.ConnectionError:
        return "no connection"
    except (requests.RequestException, ValueError) as error:
        return type(error).__name__
    if response.ok and not response.is_redirect:
        return ""
    return f"it returned HTTP {response.status_code}"


def _no_response(timeout_seconds: float) -> str:
    return f"no response within {timeout_seconds:g} s"


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
