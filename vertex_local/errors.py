"""Errors of the API in the form of Google's: HTTP code, status and message.

`google.api_core.exceptions` has similar classes, but importing it (and with it grpc) would delay
the start of the service by 0.14 s.
"""

import errno
import logging
import sqlite3
from collections.abc import Sequence

from vertex_local import Json

logger = logging.getLogger(__name__)

# HTTP code and google.rpc.Code of each status; a failed long-running operation has the second.
CODES = {
    "CANCELLED": (499, 1),
    "UNKNOWN": (500, 2),
    "INVALID_ARGUMENT": (400, 3),
    "DEADLINE_EXCEEDED": (504, 4),
    "NOT_FOUND": (404, 5),
    "ALREADY_EXISTS": (409, 6),
    "PERMISSION_DENIED": (403, 7),
    "RESOURCE_EXHAUSTED": (429, 8),
    "FAILED_PRECONDITION": (400, 9),
    "ABORTED": (409, 10),
    "UNIMPLEMENTED": (501, 12),
    "INTERNAL": (500, 13),
    "UNAVAILABLE": (503, 14),
}
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"


# Path of a field in a request, `job_spec.worker_pool_specs[0].replica_count`, and its problem.
Violation = tuple[str, str]


class StartError(Exception):
    """The service cannot start; the message has the cause and the remedy."""


class ApiError(Exception):
    """Error response to a request; `code` is the HTTP code, by default the status's."""

    def __init__(
        self, status: str, message: str, *, code: int = 0, violations: Sequence[Violation] = ()
    ) -> None:
        super().__init__(message)
        self.code = code or CODES[status][0]
        self.status = status
        self.message = message
        self.violations = violations

    def to_body(self) -> Json:
        """Return the body of the response: `{"error": {"code", "message", "status"}}`."""
        error = {"code": self.code, "message": self.message, "status": self.status}
        if self.violations:
            fields = [{"field": field, "description": text} for field, text in self.violations]
            error["details"] = [{"@type": BAD_REQUEST, "fieldViolations": fields}]
        return {"error": error}

    def to_rpc_status(self) -> Json:
        """Return the `google.rpc.Status` for the `error` field of operations, jobs and tasks."""
        return rpc_status(self.status, self.message)


def rpc_status(status: str, message: str) -> Json:
    """Return a `google.rpc.Status`; `status` is a name of `google.rpc.Code`."""
    return {"code": CODES.get(status, CODES["UNKNOWN"])[1], "message": message}


def not_found(name: str) -> ApiError:
    """Return the error for a resource that does not exist."""
    return ApiError("NOT_FOUND", f"{name} is not found.")


def already_exists(name: str) -> ApiError:
    """Return the error for a name that is in use."""
    return ApiError("ALREADY_EXISTS", f"{name} already exists.")


def invalid_argument(message: str) -> ApiError:
    """Return the error for a request that is invalid in any state of the resource."""
    return ApiError("INVALID_ARGUMENT", message)


def found_errors(violations: Sequence[Violation]) -> ApiError:
    """Return the error for fields that Vertex AI refuses, in the form of its own."""
    numbered = enumerate(violations, 1)
    listed = [f"\t{number}.Field: {field}; Message: {text}" for number, (field, text) in numbered]
    message = f"List of found errors:{''.join(listed)}\t"
    return ApiError("INVALID_ARGUMENT", message, violations=violations)


def failed_precondition(message: str) -> ApiError:
    """Return the error for a request that is invalid in the present state of the resource."""
    return ApiError("FAILED_PRECONDITION", message)


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
        return ApiError(
            "RESOURCE_EXHAUSTED", f"No space left where the service keeps its files: {error}"
        )
    logger.error("Internal error", exc_info=error)
    if isinstance(error, OSError):
        return ApiError("INTERNAL", f"The service cannot use a file or folder: {error}")
    return ApiError("INTERNAL", "Internal error. The service's log has the traceback.")
