"""Vertex AI's REST API for light steps and commands: an answer without importing the SDK.

This is the one place that knows about the emulator: where `VERTEX_EMULATOR_HOST` is set, requests
go to `http://HOST` without credentials; otherwise to the region, with the default credentials.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import requests

EMULATOR_VARIABLE = "VERTEX_EMULATOR_HOST"
REQUEST_TIMEOUT_SECONDS = 120

Json = dict[str, Any]


class VertexError(Exception):
    """An error answered by Vertex AI, with Google's code, status and message."""

    def __init__(self, *, code: int, status: str, message: str) -> None:
        super().__init__(f"{status} ({code}): {message}")
        self.code = code
        self.status = status
        self.message = message


@dataclass(frozen=True)
class VertexApi:
    """REST calls below one project and location; `parent` is `projects/P/locations/L`."""

    base_url: str
    logging_url: str
    parent: str
    session: requests.Session

    def get(self, name: str, **query: str) -> Json:
        """Reads the resource `name` (`projects/…/models/5@2`)."""
        return self._call("GET", f"{self.base_url}/v1/{name}", params=query)

    def post(self, path: str, body: Json) -> Json:
        """Calls a method, or creates in a collection: `projects/…/endpoints/5:predict`."""
        return self._call("POST", f"{self.base_url}/v1/{path}", json=body)

    def patch(self, path: str, body: Json) -> Json:
        """Changes the fields of a resource that the path's `?updateMask=` names."""
        return self._call("PATCH", f"{self.base_url}/v1/{path}", json=body)

    def delete(self, name: str) -> Json:
        """Deletes the resource `name`; answers a long-running operation."""
        return self._call("DELETE", f"{self.base_url}/v1/{name}")

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
        """Polls a long-running operation until it is done and returns its response.

        Raises:
            VertexError: the operation failed.
            TimeoutError: it was not done in time; says which operation.
        """
        deadline = time.monotonic() + timeout_seconds
        delay_seconds = 0.05
        while not operation.get("done"):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{operation['name']} was not done after {timeout_seconds:.0f} s"
                )
            time.sleep(delay_seconds)
            delay_seconds = min(delay_seconds * 1.5, 2.0)
            operation = self.get(operation["name"])
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
            "resourceNames": ["/".join(self.parent.split("/")[:2])],
            "filter": filter,
            "orderBy": order_by,
            "pageSize": page_size,
            **({"pageToken": page_token} if page_token else {}),
        }
        answer = self._call("POST", f"{self.logging_url}/v2/entries:list", json=body)
        return answer.get("entries", []), answer.get("nextPageToken", "")

    def _call(self, method: str, url: str, **arguments: Any) -> Json:
        try:
            response = self.session.request(
                method, url, timeout=REQUEST_TIMEOUT_SECONDS, allow_redirects=False, **arguments
            )
        except requests.ConnectionError as error:
            message = f"nothing answers at {self.base_url}; has the service ended?"
            raise VertexError(code=503, status="UNAVAILABLE", message=message) from error
        if response.ok:
            body: Json = response.json() if response.content else {}
            return body
        raise _error_of(response)


def connect(project: str, location: str) -> VertexApi:
    """An API for one project and location, on Vertex AI or the environment's emulator."""
    parent = f"projects/{project}/locations/{location}"
    emulator = os.environ.get(EMULATOR_VARIABLE)
    if emulator:
        url = f"http://{emulator}"
        session = requests.Session()
        session.trust_env = False  # a proxy of the environment must not see loopback requests
        return VertexApi(base_url=url, logging_url=url, parent=parent, session=session)

    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    credentials, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    return VertexApi(
        base_url=f"https://{location}-aiplatform.googleapis.com",
        logging_url="https://logging.googleapis.com",
        parent=parent,
        session=AuthorizedSession(credentials),
    )


def _error_of(response: requests.Response) -> VertexError:
    try:
        error = response.json()["error"]
        return VertexError(code=error["code"], status=error["status"], message=error["message"])
    except (ValueError, KeyError, TypeError):
        return VertexError(
            code=response.status_code, status="UNKNOWN", message=response.text[:500] or "no message"
        )
