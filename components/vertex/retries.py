"""Retries of requests to Google's APIs: which failures pass by themselves, and how long to wait.

Delays grow and are random, so that many clients do not return at the same moment
(https://cloud.google.com/storage/docs/retry-strategy); a `Retry-After` of the answer is obeyed.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

import requests
import tenacity
from urllib3.exceptions import NewConnectionError

logger = logging.getLogger(__name__)

MOST_ATTEMPTS = 8
RETRY_TIMEOUT_SECONDS = 60.0
FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 20.0
TOO_MANY_REQUESTS = 429
# Those of which 429 alone says that the request was not carried out.
TRANSIENT_CODES = frozenset({TOO_MANY_REQUESTS, 502, 503, 504})

Result = TypeVar("Result")


class VertexError(Exception):
    """An error answered by Vertex AI, with Google's code, status and message."""

    def __init__(self, *, code: int, status: str, message: str) -> None:
        super().__init__(f"{status} ({code}): {message}")
        self.code = code
        self.status = status
        self.message = message


class TransientError(VertexError):
    """A failure that may pass; `may_be_done`: the request may have been carried out anyway."""

    def __init__(
        self,
        *,
        code: int = 503,
        status: str = "UNAVAILABLE",
        message: str,
        may_be_done: bool,
        retry_after_seconds: float = 0.0,
    ) -> None:
        super().__init__(code=code, status=status, message=message)
        self.may_be_done = may_be_done
        self.retry_after_seconds = retry_after_seconds


def retry(call: Callable[[], Result], *, name: str) -> Result:
    """Call until it raises no TransientError, up to 8 times within a minute.

    Args:
        call: One attempt.
        name: What log lines and the error call it: `GET projects/…/models`.

    Raises:
        VertexError: The last failure, with the number of attempts.
    """

    def say(state: tenacity.RetryCallState) -> None:
        logger.warning(
            "%s: %s; attempt %d follows in %.1f s",
            name,
            state.outcome.exception() if state.outcome else "",
            state.attempt_number + 1,
            state.next_action.sleep if state.next_action else 0.0,
        )

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(TransientError),
        wait=_delay_seconds,
        stop=tenacity.stop_any(
            tenacity.stop_after_attempt(MOST_ATTEMPTS),
            tenacity.stop_before_delay(RETRY_TIMEOUT_SECONDS),
        ),
        before_sleep=say,
        reraise=True,
    )
    try:
        return retrying(call)
    except TransientError as error:
        attempts = retrying.statistics["attempt_number"]
        seconds = retrying.statistics["delay_since_first_attempt"]
        count = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        raise VertexError(
            code=error.code,
            status=error.status,
            message=f"{error.message} ({name} failed after {count} in {seconds:.0f} s)",
        ) from error


def failure_of(error: requests.RequestException, *, timeout_seconds: float) -> VertexError:
    """Return the error that a request without a whole answer has ended in."""
    if isinstance(error, requests.ConnectTimeout) or is_refused(error):
        return TransientError(message=f"cannot connect: {error}", may_be_done=False)
    if isinstance(error, requests.Timeout):
        return TransientError(
            code=504,
            status="DEADLINE_EXCEEDED",
            message=f"no answer came within {timeout_seconds:g} s",
            may_be_done=True,
        )
    if isinstance(error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
        message = f"the connection was lost before the whole answer came: {error}"
        return TransientError(message=message, may_be_done=True)
    return VertexError(code=500, status="UNKNOWN", message=str(error))


def is_refused(error: requests.RequestException) -> bool:
    """Whether no connection could be made, so that nothing was sent."""
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return isinstance(reason, NewConnectionError)


def refusal_of(response: requests.Response) -> VertexError:
    """Return the error that an answer without success stands for."""
    code, status, message = response.status_code, "UNKNOWN", response.text[:500] or "no message"
    try:
        error = response.json()["error"]
        code, status, message = error["code"], error["status"], error["message"]
    except (ValueError, KeyError, TypeError):
        pass
    if response.status_code not in TRANSIENT_CODES:
        return VertexError(code=code, status=status, message=message)
    return TransientError(
        code=code,
        status=status,
        message=message,
        may_be_done=response.status_code != TOO_MANY_REQUESTS,
        retry_after_seconds=_retry_after_seconds(response),
    )


_backoff = tenacity.wait_random_exponential(
    multiplier=FIRST_DELAY_SECONDS, max=LONGEST_DELAY_SECONDS
)


def _delay_seconds(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_seconds if isinstance(error, TransientError) else 0.0
    return max(_backoff(state), asked)


def _retry_after_seconds(response: requests.Response) -> float:
    """Seconds only: Google's APIs write no dates there."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else 0.0
