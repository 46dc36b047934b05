"""Errors as Google's APIs answer them: an HTTP code, a status word and a message."""

import errno
import logging
import sqlite3
from typing import Any

logger = logging.getLogger(__name__)

# google.rpc.Code, which a failed long-running operation carries instead of the HTTP code.
RPC_CODES = {
    "CANCELLED": 1,
    "UNKNOWN": 2,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
}


class ApiError(Exception):
    """What a handler raises to answer with an error; `code` is the HTTP code."""

    def __init__(self, *, code: int, status: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.message = message

    def to_body(self) -> dict[str, Any]:
        """The answer's body: `{"error": {"code", "message", "status"}}`."""
        return {"error": {"code": self.code, "message": self.message, "status": self.status}}

    def to_rpc_status(self) -> dict[str, Any]:
        """A `google.rpc.Status`, for the `error` field of operations, jobs and tasks."""
        return {"code": RPC_CODES.get(self.status, RPC_CODES["UNKNOWN"]), "message": self.message}


def not_found(name: str) -> ApiError:
    """There is no resource of this name."""
    return ApiError(code=404, status="NOT_FOUND", message=f"{name} is not found.")


def already_exists(name: str) -> ApiError:
    """The name is taken."""
    return ApiError(code=409, status="ALREADY_EXISTS", message=f"{name} already exists.")


def invalid_argument(message: str) -> ApiError:
    """The request itself is wrong."""
    return ApiError(code=400, status="INVALID_ARGUMENT", message=message)


def failed_precondition(message: str) -> ApiError:
    """The request is right, but not in the resource's present state."""
    return ApiError(code=400, status="FAILED_PRECONDITION", message=message)


def unavailable(message: str) -> ApiError:
    """Something the request needs is not running."""
    return ApiError(code=503, status="UNAVAILABLE", message=message)


def deadline_exceeded(message: str) -> ApiError:
    """The answer did not come in time."""
    return ApiError(code=504, status="DEADLINE_EXCEEDED", message=message)


def aborted(message: str) -> ApiError:
    """Ended from outside before it was done."""
    return ApiError(code=409, status="ABORTED", message=message)


def cancelled(message: str) -> ApiError:
    """Ended because the client asked for it."""
    return ApiError(code=499, status="CANCELLED", message=message)


def resource_exhausted(message: str) -> ApiError:
    """No space left."""
    return ApiError(code=429, status="RESOURCE_EXHAUSTED", message=message)


def internal(message: str) -> ApiError:
    """The service failed."""
    return ApiError(code=500, status="INTERNAL", message=message)


def of_exception(error: Exception) -> ApiError:
    """What a handler's or an operation's exception is answered as; the unexpected is logged."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RecursionError):
        return invalid_argument("The body is nested too deeply.")
    full_disk = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full_disk or (isinstance(error, sqlite3.Error) and "disk is full" in str(error)):
        return resource_exhausted(f"No space left where the service keeps its files: {error}")
    logger.error("Internal error", exc_info=error)
    if isinstance(error, OSError):
        return internal(f"The service cannot use a file or folder: {error}")
    return internal("Internal error. The service's log has the traceback.")
