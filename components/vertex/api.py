"""Vertex AI's REST API for light steps and commands: an answer without importing the SDK.

Each request that may be repeated is, while it fails as a request on a bad day does (`retries.py`).

This is the one place that knows about the emulator: where `VERTEX_EMULATOR_HOST` is set, requests
go to `http://HOST` without credentials; otherwise to the region, with the default credentials.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import requests

from components.vertex.retries import (
    TransientError,
    VertexError,
    failure_of,
    is_refused,
    refusal_of,
    retry,
)
from trainer.json_types import Json

__all__ = ["VertexApi", "VertexError", "connect"]

EMULATOR_VARIABLE = "VERTEX_EMULATOR_HOST"
REQUEST_TIMEOUT_SECONDS = 30.0
PREDICT_TIMEOUT_SECONDS = 70.0  # Vertex AI itself gives a prediction up after 60 s
OPERATION_WAIT_SECONDS = 20.0
LONGEST_POLL_SECONDS = 2.0
# Custom methods that have the same effect when they are called twice, with the error by which a
# repeat learns that an earlier attempt was carried out.
REPEATABLE_METHODS = {
    "cancel": "FAILED_PRECONDITION",
    "mergeVersionAliases": "",
    "predict": "",
    "undeployModel": "NOT_FOUND",
    "wait": "",
}

# Returns the answer of a request that was carried out, None if it was not.
Find = Callable[[], Json | None]


@dataclass(frozen=True)
class VertexApi:
    """REST calls below one project and location."""

    base_url: str
    logging_url: str
    project: str
    location: str
    session: requests.Session
    timeout_seconds: float = REQUEST_TIMEOUT_SECONDS

    @property
    def parent(self) -> str:
        """The resource name below which all others are: `projects/P/locations/L`."""
        return f"projects/{self.project}/locations/{self.location}"

    def get(self, name: str, **query: str) -> Json:
        """Reads the resource `name` (`projects/…/models/5@2`)."""
        return self._call("GET", f"{self.base_url}/v1/{name}", params=query)

    def find(self, name: str) -> Json | None:
        """Return the resource `name`, None if there is none."""
        try:
            return self.get(name)
        except VertexError as error:
            if error.status != "NOT_FOUND":
                raise
            return None

    def post(
        self, path: str, body: Json, *, find: Find | None = None, timeout_seconds: float = 0.0
    ) -> Json:
        """Call a method (`projects/…/endpoints/5:predict`), or create in a collection.

        Args:
            path: Below `/v1/`.
            body: The request.
            find: Makes repeatable what would create twice: returns the answer if an earlier
                attempt was carried out after all, for example the resource by an id of our choice.
                Without it, a creation whose outcome is unknown has failed.
            timeout_seconds: For one attempt; default: REQUEST_TIMEOUT_SECONDS.
        """
        method = path.partition("?")[0].rpartition("/")[2].partition(":")[2]
        return self._call(
            "POST",
            f"{self.base_url}/v1/{path}",
            json=body,
            find=find,
            is_repeatable=bool(find) or method in REPEATABLE_METHODS,
            done_status=REPEATABLE_METHODS.get(method, ""),
            timeout_seconds=timeout_seconds,
        )

    def patch(self, path: str, body: Json) -> Json:
        """Changes the fields of a resource that the path's `?updateMask=` names."""
        return self._call("PATCH", f"{self.base_url}/v1/{path}", json=body)

    def delete(self, name: str) -> Json:
        """Deletes the resource `name`; answers a long-running operation."""
        return self._call("DELETE", f"{self.base_url}/v1/{name}", done_status="NOT_FOUND")

    def list_resources(self, path: str, *, filter: str = "") -> Iterator[Json]:
        """Yields every resource of a collection below the parent (`customJobs`) or of a path.

        The answer's items are under the collection's own name, `models` also for `:listVersions`.
        """
        if not path.startswith("projects/"):
            path = f"{self.parent}/{path}"
        query = {"filter": filter} if filter else {}
        while True:
            answer = self.get(path, **query)
            items: list[Json] = next((v for k, v in answer.items() if k != "nextPageToken"), [])
            yield from items
            if not answer.get("nextPageToken"):
                return
            query["pageToken"] = answer["nextPageToken"]

    def wait(self, operation: Json, *, timeout_seconds: float) -> Json:
        """Waits until a long-running operation is done and returns its response.

        The service is asked to answer when it is done (`:wait`); where it cannot, it is polled.

        Raises:
            VertexError: the operation failed.
            TimeoutError: it was not done in time; says which operation.
        """
        deadline = time.monotonic() + timeout_seconds
        delay_seconds = 0.05
        can_wait = True
        while not operation.get("done"):
            left_seconds = deadline - time.monotonic()
            if left_seconds <= 0:
                raise TimeoutError(
                    f"{operation['name']} was not done after {timeout_seconds:.0f} s"
                )
            try:
                operation = self._progress(operation["name"], left_seconds if can_wait else 0.0)
            except VertexError:
                if not can_wait:
                    raise
                can_wait = False
            if not operation.get("done"):  # `:wait` may return early
                time.sleep(delay_seconds)
                delay_seconds = min(delay_seconds * 1.5, LONGEST_POLL_SECONDS)
        if "error" in operation:
            error = operation["error"]
            raise VertexError(
                code=error.get("code", 500),
                status=error.get("status", "OPERATION_FAILED"),
                message=error.get("message", "no message"),
            )
        response: Json = operation.get("response", {})
        return response

    def log_entries(
        self,
        filter: str,
        *,
        page_token: str = "",
        order_by: str = "timestamp asc",
        page_size: int = 1000,
    ) -> tuple[list[Json], str]:
        """One page of Cloud Logging's entries, oldest first, and the next page's token."""
        body = {
            "resourceNames": [f"projects/{self.project}"],
            "filter": filter,
            "orderBy": order_by,
            "pageSize": page_size,
            **({"pageToken": page_token} if page_token else {}),
        }
        answer = self._call("POST", f"{self.logging_url}/v2/entries:list", json=body)
        return answer.get("entries", []), answer.get("nextPageToken", "")

    def _progress(self, name: str, wait_seconds: float) -> Json:
        """Return an operation when it is done, or as it is after `wait_seconds`."""
        if not wait_seconds:
            return self.get(name)
        seconds = min(wait_seconds, OPERATION_WAIT_SECONDS)
        return self.post(f"{name}:wait?timeout={seconds:.1f}s", {})

    def _call(
        self,
        method: str,
        url: str,
        *,
        find: Find | None = None,
        is_repeatable: bool = True,
        done_status: str = "",
        timeout_seconds: float = 0.0,
        **arguments: Any,
    ) -> Json:
        """Send a request, again after a failure that may pass, if a repeat does no harm.

        `done_status` is the error by which a repeat learns that an earlier attempt was carried out.
        """
        may_be_done = False

        def attempt() -> Json:
            nonlocal may_be_done
            if may_be_done and find and (found := find()) is not None:
                return found
            try:
                return self._send(method, url, timeout_seconds=timeout_seconds, **arguments)
            except TransientError as error:
                may_be_done = may_be_done or error.may_be_done
                if error.may_be_done and not is_repeatable:
                    raise _unknown_outcome(error, method, url) from error
                raise
            except VertexError as error:
                if may_be_done and error.status == done_status:
                    return {"done": True}
                if may_be_done and find and error.status == "ALREADY_EXISTS":
                    # By an earlier attempt; the next looks, and finds it when it can be read.
                    raise TransientError(
                        code=error.code,
                        status=error.status,
                        message=error.message,
                        may_be_done=True,
                    ) from error
                raise

        return retry(attempt, name=_title(method, url))

    def _send(self, method: str, url: str, *, timeout_seconds: float, **arguments: Any) -> Json:
        """Send a request once."""
        timeout = timeout_seconds or self.timeout_seconds
        try:
            response = self.session.request(
                method, url, timeout=timeout, allow_redirects=False, **arguments
            )
            if response.ok:
                body: Json = response.json() if response.content else {}
                return body
        except requests.RequestException as error:
            if is_refused(error) and url.startswith("http://"):  # an emulator does not come back
                message = f"nothing answers at {self.base_url}; has the service ended?"
                raise VertexError(code=503, status="UNAVAILABLE", message=message) from error
            raise failure_of(error, timeout_seconds=timeout) from error
        raise refusal_of(response)


def finished(resource: Json | None) -> Json | None:
    """Return the operation that has made `resource`, for the `find` of a creation."""
    return resource and {"done": True, "response": resource}


def connect(project: str, location: str) -> VertexApi:
    """An API for one project and location, on Vertex AI or the environment's emulator."""
    emulator = os.environ.get(EMULATOR_VARIABLE)
    if emulator:
        url = f"http://{emulator}"
        session = requests.Session()
        session.trust_env = False  # a proxy of the environment must not see loopback requests
        return VertexApi(
            base_url=url, logging_url=url, project=project, location=location, session=session
        )

    import google.auth
    from google.auth.exceptions import TransportError
    from google.auth.transport.requests import AuthorizedSession

    class Session(AuthorizedSession):  # type: ignore[misc]
        """Says that no token could be fetched as a connection that was not made is said."""

        def request(self, *arguments: Any, **options: Any) -> requests.Response:
            try:
                response: requests.Response = super().request(*arguments, **options)
                return response
            except TransportError as error:
                raise requests.ConnectTimeout(f"no access token: {error}") from error

    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    return VertexApi(
        base_url=f"https://{location}-aiplatform.googleapis.com",
        logging_url="https://logging.googleapis.com",
        project=project,
        location=location,
        session=Session(credentials),
    )


def _title(method: str, url: str) -> str:
    """`POST projects/…/endpoints`, without the host and the query."""
    return f"{method} {url.partition('?')[0].split('/', 4)[-1]}"


def _unknown_outcome(error: VertexError, method: str, url: str) -> VertexError:
    return VertexError(
        code=error.code,
        status=error.status,
        message=f"{error.message} ({_title(method, url)} may have been carried out; "
        "look before you repeat it)",
    )
