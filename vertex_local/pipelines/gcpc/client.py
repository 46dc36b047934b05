"""Requests with retries to this service."""

from collections.abc import Callable
from http import HTTPStatus

import requests
import tenacity
from urllib3.exceptions import NewConnectionError

from vertex_local import Json
from vertex_local.pipelines.gcpc.requests import GcpcError

REQUEST_TIMEOUT_SECONDS = 60.0
MAX_ATTEMPTS = 8
RETRY_TIMEOUT_SECONDS = 60.0
FIRST_DELAY_SECONDS = 0.25
MAX_DELAY_SECONDS = 10.0
TRANSIENT_CODES = {429, 502, 503, 504}


class TransientError(GcpcError):
    """Failure that a retry may avoid; the request `may_be_done` nevertheless."""

    def __init__(self, message: str, *, may_be_done: bool) -> None:
        super().__init__(message)
        self.may_be_done = may_be_done


def call(
    session: requests.Session,
    method: str,
    url: str,
    *,
    body: Json | None = None,
    find: Callable[[], Json | None] = lambda: None,
    write_log: Callable[[str], None],
) -> Json:
    """Send a request; retry transient failures up to 8 times within a minute.

    `find` makes it safe to repeat a creation: it returns the response if an earlier attempt was
    carried out. `write_log` writes a line to a log.

    Raises:
        GcpcError: It was refused, or all attempts have failed. If the service is not running,
            there is no retry.
    """
    may_be_done = False

    def attempt() -> Json:
        nonlocal may_be_done
        if may_be_done and (response := find()) is not None:
            return response
        try:
            return _send(session, method, url, body=body)
        except TransientError as error:
            may_be_done = may_be_done or error.may_be_done
            raise

    def log_retry(state: tenacity.RetryCallState) -> None:
        reason = state.outcome.exception() if state.outcome else ""
        write_log(f"{reason}; retrying (attempt {state.attempt_number + 1})")

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(TransientError),
        wait=tenacity.wait_random_exponential(
            multiplier=FIRST_DELAY_SECONDS, max=MAX_DELAY_SECONDS
        ),
        stop=tenacity.stop_any(
            tenacity.stop_after_attempt(MAX_ATTEMPTS),
            tenacity.stop_before_delay(RETRY_TIMEOUT_SECONDS),
        ),
        before_sleep=log_retry,
        reraise=True,
    )
    return retrying(attempt)


def _send(session: requests.Session, method: str, url: str, *, body: Json | None) -> Json:
    try:
        response = session.request(method, url, json=body, timeout=REQUEST_TIMEOUT_SECONDS)
    except requests.RequestException as problem:
        message = f"{method} {url}: {problem}"
        if _is_connection_refused(problem):
            raise GcpcError(message) from None
        raise TransientError(message, may_be_done=True) from None
    try:
        result: Json = response.json()
    except ValueError:
        result = {"error": {"message": response.text[:500]}} if not response.ok else {}
    if not response.ok:
        error = result.get("error", {})
        reason = f"{error.get('status', response.status_code)}: {error.get('message', '')}"
        message = f"{method} {url.partition('/v1/')[2]} was refused: {reason}"
        if response.status_code in TRANSIENT_CODES:
            may_be_done = response.status_code != HTTPStatus.TOO_MANY_REQUESTS
            raise TransientError(message, may_be_done=may_be_done)
        raise GcpcError(message)
    return result


def _is_connection_refused(error: requests.RequestException) -> bool:
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return isinstance(reason, NewConnectionError)
