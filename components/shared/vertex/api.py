"""Client of Vertex AI's REST API for light steps and commands, which do not import the SDK.

A request is retried after a transient error (`retries.py`) if repeating it is safe.

Only this module knows the emulator: with `VERTEX_EMULATOR_HOST` set, requests go to `http://HOST`
without credentials; otherwise to the region's host, with the default credentials.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import requests

from components.shared.text.json_object import present
from components.shared.vertex.errors import VertexError
from components.shared.vertex.retries import (
    MAX_ATTEMPTS,
    error_of_exception,
    error_of_response,
    is_refused,
    retry,
)
from trainer import Json

EMULATOR_VARIABLE = "VERTEX_EMULATOR_HOST"
TOKEN_VARIABLE = "VERTEX_EMULATOR_TOKEN"  # where the emulator requires one
REQUEST_TIMEOUT_SECONDS = 30.0
PREDICT_TIMEOUT_SECONDS = 70.0  # Vertex AI's own limit is 60 s
WAIT_SECONDS = 1800.0  # for a long-running operation
OPERATION_WAIT_SECONDS = 20.0
MAX_POLL_SECONDS = 2.0
VERTEX_POLL_SECONDS = 5.0  # Vertex AI has a quota of requests, the local service has none
# Custom methods that are safe to repeat, with the error that a repeated call gets if an earlier one
# was carried out.
REPEATABLE_METHODS = {
    "cancel": "FAILED_PRECONDITION",
    "import": "",  # a second evaluation of a version does no harm
    "mergeVersionAliases": "",
    "mutateDeployedModel": "",
    "predict": "",
    "undeployModel": "NOT_FOUND",
    "wait": "",
}

# Returns the response to a request that was carried out, None if it was not.
Find = Callable[[], Json | None]


@dataclass(frozen=True)
class VertexApi:
    """Client for one project and location.

    `min_poll_seconds` is the shortest pause of a command or step that waits for a job or run.
    """

    base_url: str
    logging_url: str
    project: str
    location: str
    session: requests.Session
    timeout_seconds: float = REQUEST_TIMEOUT_SECONDS
    max_attempts: int = MAX_ATTEMPTS
    min_poll_seconds: float = 0.0

    @property
    def parent(self) -> str:
        """The prefix of all resource names, `projects/P/locations/L`."""
        return f"projects/{self.project}/locations/{self.location}"

    def get(self, name: str, **query: str) -> Json:
        """Return the resource `name` (`projects/…/models/5@2`)."""
        return self._call("GET", f"{self.base_url}/v1/{name}", params=query)

    def find(self, name: str, **query: str) -> Json | None:
        """Return the resource `name`, None if it does not exist."""
        try:
            return self.get(name, **query)
        except VertexError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            return None

    def post(
        self, path: str, body: Json, *, find: Find | None = None, timeout_seconds: float = 0.0
    ) -> Json:
        """Call a method (`projects/…/endpoints/5:predict`), or create a resource in a collection.

        Args:
            path: Path below `/v1/`.
            body: The request.
            find: Makes a creation safe to retry: returns the response if an earlier attempt was
                carried out, for example by looking the resource up by an id chosen in advance.
                Without it, a creation with an unknown outcome is an error.
            timeout_seconds: Timeout of one attempt; default: REQUEST_TIMEOUT_SECONDS.
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
        """Update the fields of a resource that the path's `?updateMask=` names."""
        return self._call("PATCH", f"{self.base_url}/v1/{path}", json=body)

    def delete(self, name: str) -> Json:
        """Delete the resource `name`; return the long-running operation."""
        return self._call("DELETE", f"{self.base_url}/v1/{name}", done_status="NOT_FOUND")

    def list_resources(self, path: str, **query: str) -> Iterator[Json]:
        """Yield every resource of a collection: `customJobs`, or a path from `projects/` on.

        The response has the items under the collection's name, for `:listVersions` under `models`.
        `query` has `filter`, `orderBy`, `readMask` and `pageSize`, as far as they are needed.
        """
        if not path.startswith("projects/"):
            path = f"{self.parent}/{path}"
        query = present(query)
        while True:
            page = self.get(path, **query)
            items: list[Json] = next((v for k, v in page.items() if k != "nextPageToken"), [])
            yield from items
            if not page.get("nextPageToken"):
                return
            query["pageToken"] = page["nextPageToken"]

    def wait(self, operation: Json, *, timeout_seconds: float = WAIT_SECONDS) -> Json:
        """Wait for a long-running operation and return its response.

        The service holds the request until the operation is done (`:wait`); if it has no such
        method, the operation is polled.

        Raises:
            VertexError: The operation failed.
            TimeoutError: It was not done in time; names the operation.
        """
        deadline = time.monotonic() + timeout_seconds
        delay_seconds = 0.05
        has_wait_method = True
        while not operation.get("done"):
            left_seconds = deadline - time.monotonic()
            if left_seconds <= 0:
                raise TimeoutError(
                    f"{operation['name']} was not done after {timeout_seconds:.0f} s"
                )
            name, seconds = operation["name"], min(left_seconds, OPERATION_WAIT_SECONDS)
            try:
                if has_wait_method:
                    operation = self.post(f"{name}:wait?timeout={seconds:.1f}s", {})
                else:
                    operation = self.get(name)
            except VertexError:
                if not has_wait_method:
                    raise
                has_wait_method = False
            if not operation.get("done"):  # `:wait` may return early
                time.sleep(delay_seconds)
                delay_seconds = min(delay_seconds * 1.5, MAX_POLL_SECONDS)
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
        """Return one page of Cloud Logging's entries, and the token of the next page."""
        body = present(
            {
                "resourceNames": [f"projects/{self.project}"],
                "filter": filter,
                "orderBy": order_by,
                "pageSize": page_size,
                "pageToken": page_token,
            }
        )
        page = self._call("POST", f"{self.logging_url}/v2/entries:list", json=body)
        return page.get("entries", []), page.get("nextPageToken", "")

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
        """Send a request, and retry it after a transient error if repeating it is safe.

        `done_status` is the error that a retry gets if an earlier attempt was carried out.
        """
        may_be_done = False

        def attempt() -> Json:
            nonlocal may_be_done
            if may_be_done and find and (created := find()) is not None:
                return created
            try:
                return self._send(method, url, timeout_seconds=timeout_seconds, **arguments)
            except VertexError as error:
                if error.may_be_done and not is_repeatable:
                    raise error.final(
                        f"{error.message} ({_title(method, url)} may have been carried out; "
                        "check before you repeat it)"
                    ) from error
                if may_be_done and error.status == done_status:
                    return {"done": True}
                if may_be_done and find and error.status == "ALREADY_EXISTS":
                    # Created by an earlier attempt; retry until `find` can read it.
                    error.is_transient = True
                may_be_done = may_be_done or error.may_be_done
                raise

        return retry(attempt, name=_title(method, url), max_attempts=self.max_attempts)

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
            if is_refused(error) and url.startswith("http://"):  # a stopped emulator stays stopped
                message = f"no server at {self.base_url}; has the service stopped?"
                raise VertexError(code=503, status="UNAVAILABLE", message=message) from error
            raise error_of_exception(error, timeout_seconds=timeout) from error
        raise error_of_response(response)


def list_named(api: VertexApi, collection: str, display_name: str) -> Iterator[Json]:
    """Yield the resources with a display name.

    A name with a quotation mark or backslash cannot be written in a filter: all are compared.
    """
    if '"' not in display_name and "\\" not in display_name:
        return api.list_resources(collection, filter=f'display_name="{display_name}"')
    resources = api.list_resources(collection)
    return (resource for resource in resources if resource.get("displayName") == display_name)


def finished(resource: Json | None) -> Json | None:
    """Return the finished operation that created `resource`, for the `find` of a creation."""
    return resource and {"done": True, "response": resource}


def connect(project: str, location: str) -> VertexApi:
    """Return a client for one project and location, on Vertex AI or the environment's emulator."""
    emulator = os.environ.get(EMULATOR_VARIABLE)
    if emulator:
        url = f"http://{emulator}"
        session = requests.Session()
        session.trust_env = False  # a proxy of the environment must not see loopback requests
        if token := os.environ.get(TOKEN_VARIABLE):
            session.headers["Authorization"] = f"Bearer {token}"
        return VertexApi(
            base_url=url, logging_url=url, project=project, location=location, session=session
        )

    import google.auth
    from google.auth.exceptions import TransportError
    from google.auth.transport.requests import AuthorizedSession

    class Session(AuthorizedSession):  # type: ignore[misc]
        """Session that reports a failed token request as a failed connection: nothing was sent."""

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
        min_poll_seconds=VERTEX_POLL_SECONDS,
    )


def _title(method: str, url: str) -> str:
    """Return `POST projects/…/endpoints`, without the host and the query."""
    return f"{method} {url.partition('?')[0].split('/', 4)[-1]}"
