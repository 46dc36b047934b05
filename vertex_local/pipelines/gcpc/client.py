"""Requests with retries to this service; an `Idempotency-Key` makes a retry safe."""

import uuid
from collections.abc import Callable
from typing import Any

import requests
import tenacity
from urllib3.exceptions import NewConnectionError

from vertex_local import Json
from vertex_local.api.idempotency import HEADER

REQUEST_TIMEOUT_SECONDS = 60.0
MAX_ATTEMPTS = 8
RETRY_TIMEOUT_SECONDS = 60.0
FIRST_DELAY_SECONDS = 0.25
MAX_DELAY_SECONDS = 10.0
TRANSIENT_CODES = {429, 502, 503, 504}


class RequestError(Exception):
    """Failed request; the message names the request and the reason."""


class TransientError(RequestError):
    """Failure that a retry may avoid."""


def call(
    session: requests.Session,
    method: str,
    url: str,
    *,
    body: Json | None = None,
    write_log: Callable[[str], None],
) -> Json:
    """Send a request; retry transient failures up to 8 times within a minute.

    `write_log` writes a line to a log.

    Raises:
        RequestError: It was refused, or all attempts have failed. If the service is not running,
            there is no retry.
    """
    headers = {} if method == "GET" else {HEADER: f'"{uuid.uuid4()}"'}

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
    return retrying(lambda: _send(session, method, url, body=body, headers=headers))


def _send(session: requests.Session, method: str, url: str, **arguments: Any) -> Json:
    body = arguments.pop("body")
    try:
        response = session.request(
            method, url, json=body, timeout=REQUEST_TIMEOUT_SECONDS, **arguments
        )
    except requests.RequestException as problem:
        kind = RequestError if _is_connection_refused(problem) else TransientError
        raise kind(f"{method} {url}: {problem}") from None
    try:
        result: Json = response.json()
    except ValueError:
        result = {"error": {"message": response.text[:500]}} if not response.ok else {}
    if not response.ok:
        error = result.get("error", {})
        reason = f"{error.get('status', response.status_code)}: {error.get('message', '')}"
        kind = TransientError if response.status_code in TRANSIENT_CODES else RequestError
        raise kind(f"{method} {url.partition('/v1/')[2]} was refused: {reason}")
    return result


def _is_connection_refused(error: requests.RequestException) -> bool:
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return isinstance(reason, NewConnectionError)
