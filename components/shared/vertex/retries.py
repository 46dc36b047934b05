"""Retries of requests to Google's APIs: which errors are transient, and the delay before a retry.

Delays grow and are random, so that many clients do not return at the same moment
(https://cloud.google.com/storage/docs/retry-strategy); a `Retry-After` header is obeyed.
"""

import logging
import random
from collections.abc import Callable
from typing import TypeVar

import requests
import tenacity
from urllib3.exceptions import NewConnectionError

from components.shared.vertex.errors import VertexError

logger = logging.getLogger(__name__)

# The least delays add up to 66 s: a quota per minute is new again before the last attempt.
MAX_ATTEMPTS = 12
RETRY_TIMEOUT_SECONDS = 150.0
FIRST_DELAY_SECONDS = 0.5
MAX_DELAY_SECONDS = 20.0
TOO_MANY_REQUESTS = 429
# After 429 the request was certainly not carried out; after the others it may have been.
TRANSIENT_CODES = frozenset({TOO_MANY_REQUESTS, 502, 503, 504})
TRANSIENT_CODES_OF_READS = TRANSIENT_CODES | {500}

Result = TypeVar("Result")


def retry(call: Callable[[], Result], *, name: str, max_attempts: int = MAX_ATTEMPTS) -> Result:
    """Call until there is no transient error, at most `max_attempts` times within 150 s.

    `name` is the request in log lines and in the error, such as `GET projects/…/models`.

    Raises:
        VertexError: The last error, with the number of attempts.
    """

    def log_retry(state: tenacity.RetryCallState) -> None:
        logger.warning(
            "%s: %s; attempt %d follows in %.1f s",
            name,
            state.outcome.exception() if state.outcome else "",
            state.attempt_number + 1,
            state.next_action.sleep if state.next_action else 0.0,
        )

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(
            lambda error: isinstance(error, VertexError) and error.is_transient
        ),
        wait=_delay_seconds,
        stop=tenacity.stop_any(
            tenacity.stop_after_attempt(max_attempts),
            tenacity.stop_before_delay(RETRY_TIMEOUT_SECONDS),
        ),
        before_sleep=log_retry,
        reraise=True,
    )
    try:
        return retrying(call)
    except VertexError as error:
        if not error.is_transient:
            raise
        attempts = retrying.statistics["attempt_number"]
        seconds = retrying.statistics["delay_since_first_attempt"]
        count = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        message = f"{error.message} ({name} failed after {count} in {seconds:.0f} s)"
        raise error.final(message) from error


def error_of_exception(error: requests.RequestException, *, timeout_seconds: float) -> VertexError:
    """Return the error for a request without a complete response."""
    if isinstance(error, requests.ConnectTimeout) or is_refused(error):
        return _unavailable(f"cannot connect: {error}", may_be_done=False)
    if isinstance(error, requests.Timeout):
        return VertexError(
            code=504,
            status="DEADLINE_EXCEEDED",
            message=f"no response within {timeout_seconds:g} s",
            is_transient=True,
            may_be_done=True,
        )
    if isinstance(error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
        message = f"the connection was lost before the response was complete: {error}"
        return _unavailable(message, may_be_done=True)
    return VertexError(code=500, status="UNKNOWN", message=str(error))


def error_of_response(response: requests.Response) -> VertexError:
    """Return the error for a response with an HTTP error code."""
    code, status, message = response.status_code, "UNKNOWN", response.text[:500] or "no message"
    try:
        error = response.json()["error"]
        code, status, message = error["code"], error["status"], error["message"]
    except (ValueError, KeyError, TypeError):
        pass
    is_read = response.request.method == "GET"
    retry_after = response.headers.get("Retry-After", "")  # Google's APIs send no dates there
    is_transient = response.status_code in (
        TRANSIENT_CODES_OF_READS if is_read else TRANSIENT_CODES
    )
    return VertexError(
        code=code,
        status=status,
        message=message,
        is_transient=is_transient,
        may_be_done=is_transient and response.status_code != TOO_MANY_REQUESTS,
        retry_after_seconds=float(retry_after) if retry_after.isdecimal() else 0.0,
    )


def is_refused(error: requests.RequestException) -> bool:
    """Return whether no connection could be made, so that nothing was sent."""
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return isinstance(reason, NewConnectionError)


def _unavailable(message: str, *, may_be_done: bool) -> VertexError:
    return VertexError(
        code=503, status="UNAVAILABLE", message=message, is_transient=True, may_be_done=may_be_done
    )


def _backoff(state: tenacity.RetryCallState) -> float:
    """Return a delay between half of the longest one and all of it; the longest one doubles."""
    longest = min(FIRST_DELAY_SECONDS * 2 ** (state.attempt_number - 1), MAX_DELAY_SECONDS)
    return random.uniform(longest / 2, longest)


def _delay_seconds(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    requested = error.retry_after_seconds if isinstance(error, VertexError) else 0.0
    return max(_backoff(state), requested)
