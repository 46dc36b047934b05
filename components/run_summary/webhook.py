"""Posts a run's summary to a web address; a slow or dead server holds nobody for long."""

import logging
import queue
import threading

from components.run_summary.settings import without_path

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0


def post_summary(url: str, summary: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
    """Post a summary, JSON, once; return what went wrong, "" if the server took it.

    A server that sends its answer a byte at a time never reaches a socket's timeout. So a thread
    sends, and is left behind when the time is over.
    """
    answers: queue.Queue[str] = queue.Queue()
    sender = threading.Thread(
        target=lambda: answers.put(_post(url, summary, timeout_seconds)), daemon=True
    )
    sender.start()
    try:
        problem = answers.get(timeout=timeout_seconds)
    except queue.Empty:
        problem = f"it did not answer within {timeout_seconds:g} s"
    place = without_path(url)
    if problem:
        return f"the webhook {place} was not told of the run's end: {problem}"
    logger.info("told %s of the run's end", place)
    return ""


def _post(url: str, summary: str, timeout_seconds: float) -> str:
    """Send the request; errors are told without the address, whose path may be a secret."""
    import requests

    try:
        with requests.Session() as session:
            session.trust_env = not _is_loopback(url)  # no proxy for this machine's own servers
            answer = session.post(
                url,
                data=summary.encode(),
                headers={"Content-Type": "application/json"},
                timeout=timeout_seconds,
                allow_redirects=False,
                stream=True,  # the body of the answer is not read
            )
    except requests.Timeout:
        return f"it did not answer within {timeout_seconds:g} s"
    except requests.ConnectionError:
        return "no connection"
    except (requests.RequestException, ValueError) as error:
        return type(error).__name__
    if answer.ok and not answer.is_redirect:
        return ""
    return f"it answered HTTP {answer.status_code}"


def _is_loopback(url: str) -> bool:
    from urllib.parse import urlsplit

    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
