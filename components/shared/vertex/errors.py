"""Error of requests to Vertex AI, in a module of its own that every step can import quickly."""


class VertexError(Exception):
    """Error of a request to Vertex AI, with Google's code, status and message.

    `is_transient`: a retry may succeed, after `retry_after_seconds` at the earliest.
    `may_be_done`: the request may have been carried out despite the error.

    The classes of google.api_core.exceptions have no place for these, and importing them imports
    gRPC: 0.2 s more CPU for every command (0.8 s without).
    """

    def __init__(
        self,
        *,
        code: int,
        status: str,
        message: str,
        is_transient: bool = False,
        may_be_done: bool = False,
        retry_after_seconds: float = 0.0,
    ) -> None:
        super().__init__(f"{status} ({code}): {message}")
        self.code = code
        self.status = status
        self.message = message
        self.is_transient = is_transient
        self.may_be_done = may_be_done
        self.retry_after_seconds = retry_after_seconds

    def final(self, message: str) -> "VertexError":
        """Return the same error with another message, not to be retried."""
        return VertexError(code=self.code, status=self.status, message=message)
