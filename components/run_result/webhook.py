"""Post of a run's summary to a webhook, with a limit on the total time.

The webhook's address may be in a variable (`env:NAME`) or in Secret Manager: a parameter of a run
is readable in its record, in logs and in the list of processes.
"""

import base64
import logging
import os
import queue
import re
import threading
from urllib.parse import urlsplit

import requests

from components.run_result.settings import READABLE_ADDRESS, SECRET, VARIABLE, without_path

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0
SECRET_MANAGER = "https://secretmanager.googleapis.com/v1"


class _AddressError(Exception):
    """The address cannot be read; the message says why, without it."""


def post_summary(url: str, summary: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
    """Post a summary (JSON) once, to a URL or the one at `url`; return an error, "" on success.

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
    shown = without_path(url)
    if problem:
        return f"the webhook {shown} did not take the run's summary: {problem}"
    logger.info("posted the run's summary to %s", shown)
    return ""


def _post(url: str, summary: str, timeout_seconds: float) -> str:
    """Send the request; error messages leave out the URL, whose path may be a secret."""
    try:
        url = _address(url, timeout_seconds=timeout_seconds)
        with requests.Session() as session:
            # No proxy for this machine's own servers.
            session.trust_env = urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1")
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
    except _AddressError as error:
        return str(error)
    except (requests.RequestException, ValueError, KeyError) as error:
        return type(error).__name__
    if response.ok and not response.is_redirect:
        return ""
    return f"it returned HTTP {response.status_code}"


def _address(source: str, *, timeout_seconds: float) -> str:
    if re.fullmatch(VARIABLE, source):
        name = source.partition(":")[2]
        address = os.environ.get(name, "")
        if not address:
            raise _AddressError(f"the environment of the run's last step has no variable {name}")
    elif re.fullmatch(SECRET, source):
        address = _read_secret(source, timeout_seconds=timeout_seconds)
    else:
        return source
    if not re.fullmatch(READABLE_ADDRESS, address.strip()):
        raise _AddressError("its value is not a web address, as https://HOST/PATH")
    return address.strip()


def _read_secret(name: str, *, timeout_seconds: float) -> str:
    import google.auth
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession

    try:
        credentials, _ = google.auth.default(
            scopes=["https://www.googleapis.com/auth/cloud-platform"]
        )
        session = AuthorizedSession(credentials)
        response = session.get(f"{SECRET_MANAGER}/{name}:access", timeout=timeout_seconds)
    except GoogleAuthError as error:
        raise _AddressError(f"no credentials to read it: {error}") from error
    if not response.ok:
        raise _AddressError(
            f"Secret Manager returned HTTP {response.status_code}; the run's account needs the"
            " role secretmanager.secretAccessor on it"
        )
    return base64.b64decode(response.json()["payload"]["data"]).decode()


def _no_response(timeout_seconds: float) -> str:
    return f"no response within {timeout_seconds:g} s"
