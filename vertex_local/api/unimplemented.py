"""Methods of Vertex AI that this service does not have: named, with those that it has."""

import re
from collections.abc import Iterable

from vertex_local.api.routes import Route
from vertex_local.errors import ApiError

# Paths that Google's clients use: of Vertex AI, and of Cloud Logging (v2).
GOOGLES = re.compile(r"/(?P<version>v[0-9]+(?:beta|alpha)?[0-9]*|ui)/(?P<rest>.*)", re.DOTALL)
LOCATION = re.compile(r"projects/[^/:]+/locations/[^/:]+/?(?P<path>.*)", re.DOTALL)
OURS = "projects/<project>/locations/<location>/"
VERSIONS = ("v1", "v2", "ui")
ROOTS = ("projects/", "publishers/", "entries", "operations")


class Unimplemented:
    """Error for a method and path that no route has."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._methods: dict[str, list[str]] = {}
        for route in routes:
            if not route.pattern.startswith(OURS):
                continue
            path = re.sub("<[a-z]+>", "ID", route.pattern.removeprefix(OURS))
            if not path.startswith("ID"):  # operations of any resource
                self._methods.setdefault(_kind(path), []).append(f"{route.method} {path}")

    def error(self, method: str, path: str) -> ApiError:
        """Return 501 for what may be a method of Vertex AI, 404 for any other path."""
        found = GOOGLES.fullmatch(path)
        if found is None or not _is_googles(found["version"], found["rest"]):
            return ApiError(
                code=404,
                status="NOT_FOUND",
                message=f"{path} is not a path of this service; see / for what it holds, and "
                "/v1/projects/PROJECT/locations/LOCATION/models for its API.",
            )
        location = LOCATION.fullmatch(found["rest"])
        wanted = location["path"] if location else found["rest"]
        return ApiError(
            code=501,
            status="UNIMPLEMENTED",
            message=f"vertex-local does not implement {method} {wanted or found['rest']}: "
            f"{self._reason(found['version'], wanted)}",
        )

    def _reason(self, version: str, wanted: str) -> str:
        if version not in VERSIONS:
            return f"it has version v1 of the API, not {version}."
        kind = _kind(wanted)
        if kind in self._methods:
            return f"of {kind} it has {', '.join(self._methods[kind])}."
        kinds = ", ".join(sorted(self._methods))
        return f"it has no {kind or 'such method'}; of Vertex AI it has {kinds}."


def _is_googles(version: str, rest: str) -> bool:
    return version not in VERSIONS or rest.startswith(ROOTS)


def _kind(path: str) -> str:
    return re.split("[/:]", path, maxsplit=1)[0]
