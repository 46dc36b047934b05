"""Errors of the API in the form of Google's: HTTP code, status and message.

`google.api_core.exceptions` has similar classes, but importing it (and with it grpc) would delay
the start of the service by 0.14 s.
"""

import errno
import logging
import sqlite3

from vertex_local import Json

logger = logging.getLogger(__name__)

# google.rpc.Code, which a failed long-running operation has instead of the HTTP code.
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
    """Error response to a request; `code` is the HTTP code."""

    def __init__(self, *, code: int, status: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.message = message

    def to_body(self) -> Json:
        """Return the body of the response: `{"error": {"code", "message", "status"}}`."""
        return {"error": {"code": self.code, "message": self.message, "status": self.status}}

    def to_rpc_status(self) -> Json:
        """Return the `google.rpc.Status` for the `error` field of operations, jobs and tasks."""
        return rpc_status(self.status, self.message)


def rpc_status(status: str, message: str) -> Json:
    """Return a `google.rpc.Status`; `status` is a name of `google.rpc.Code`."""
    return {"code": RPC_CODES.get(status, RPC_CODES["UNKNOWN"]), "message": message}


def not_found(name: str) -> ApiError:
    """Return the error for a resource that does not exist."""
    return ApiError(code=404, status="NOT_FOUND", message=f"{name} is not found.")


def already_exists(name: str) -> ApiError:
    """Return the error for a name that is in use."""
    return ApiError(code=409, status="ALREADY_EXISTS", message=f"{name} already exists.")


def invalid_argument(message: str) -> ApiError:
    """Return the error for a request that is invalid in any state of the resource."""
    return ApiError(code=400, status="INVALID_ARGUMENT", message=message)


def failed_precondition(message: str) -> ApiError:
    """Return the error for a request that is invalid in the present state of the resource."""
    return ApiError(code=400, status="FAILED_PRECONDITION", message=message)


def unavailable(message: str) -> ApiError:
    """Return the error for a request that needs a process that is not running."""
    return ApiError(code=503, status="UNAVAILABLE", message=message)


def deadline_exceeded(message: str) -> ApiError:
    """Return the error for a request that timed out."""
    return ApiError(code=504, status="DEADLINE_EXCEEDED", message=message)


def aborted(message: str) -> ApiError:
    """Return the error for a request that was interrupted."""
    return ApiError(code=409, status="ABORTED", message=message)


def cancelled(message: str) -> ApiError:
    """Return the error for an operation that the client cancelled."""
    return ApiError(code=499, status="CANCELLED", message=message)


def resource_exhausted(message: str) -> ApiError:
    """Return the error for a full disk."""
    return ApiError(code=429, status="RESOURCE_EXHAUSTED", message=message)


def internal(message: str) -> ApiError:
    """Return the error for a failure of the service itself."""
    return ApiError(code=500, status="INTERNAL", message=message)


def is_full_disk(error: Exception) -> bool:
    """Return whether an exception says that no space is left, or no file can be created."""
    if isinstance(error, ApiError):
        return error.status == "RESOURCE_EXHAUSTED"
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, sqlite3.Error) and "disk is full" in str(error)


def of_exception(error: Exception) -> ApiError:
    """Return the error response for an exception; log an unexpected one."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RecursionError):
        return invalid_argument("The body is nested too deeply.")
    if is_full_disk(error):
        return resource_exhausted(f"No space left where the service keeps its files: {error}")
    logger.error("Internal error", exc_info=error)
    if isinstance(error, OSError):
        return internal(f"The service cannot use a file or folder: {error}")
    return internal("Internal error. The service's log has the traceback.")
