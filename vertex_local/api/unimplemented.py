"""Errors for methods of Vertex AI that this service does not implement."""

import re
from collections.abc import Iterable

from vertex_local.api.routes import Route
from vertex_local.errors import ApiError

# Paths of Google's APIs: Vertex AI, and Cloud Logging (v2).
GOOGLE = re.compile(r"/(?P<version>v[0-9]+(?:beta|alpha)?[0-9]*|ui)/(?P<rest>.*)", re.DOTALL)
LOCATION = re.compile(r"projects/[^/:]+/locations/[^/:]+/?(?P<path>.*)", re.DOTALL)
COLLECTIONS = "projects/<project>/locations/<location>/"
VERSIONS = ("v1", "v2", "ui")
ROOTS = ("projects/", "publishers/", "entries", "operations")


class Unimplemented:
    """Errors for methods and paths without a route."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._methods: dict[str, list[str]] = {}
        for route in routes:
            if not route.pattern.startswith(COLLECTIONS):
                continue
            path = re.sub("<[a-z]+>", "ID", route.pattern.removeprefix(COLLECTIONS))
            if not path.startswith("ID"):  # operations of any resource
                self._methods.setdefault(_kind(path), []).append(f"{route.method} {path}")

    def error(self, method: str, path: str) -> ApiError:
        """Return a 501 error for a possible path of Vertex AI, 404 for any other."""
        found = GOOGLE.fullmatch(path)
        if not found or (found["version"] in VERSIONS and not found["rest"].startswith(ROOTS)):
            return ApiError(
                "NOT_FOUND",
                f"{path} is not a path of this service; its page is /, its API begins at "
                "/v1/projects/PROJECT/locations/LOCATION/models.",
            )
        location = LOCATION.fullmatch(found["rest"])
        wanted = location["path"] if location else found["rest"]
        return ApiError(
            "UNIMPLEMENTED",
            f"vertex-local does not implement {method} {wanted or found['rest']}: "
            f"{self._reason(found['version'], wanted)}",
        )

    def _reason(self, version: str, wanted: str) -> str:
        if version not in VERSIONS:
            return f"it implements version v1 of the API, not {version}."
        kind = _kind(wanted)
        if kind in self._methods:
            return f"for {kind} it implements {', '.join(self._methods[kind])}."
        kinds = ", ".join(sorted(self._methods))
        return f"it has no {kind or 'such method'}; it implements {kinds}."


def _kind(path: str) -> str:
    return re.split("[/:]", path, maxsplit=1)[0]
