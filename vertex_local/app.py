"""The WSGI application: routing, checks of requests, and error responses like Google's."""

import json
import logging
import math
import re
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import BaseConverter, Map, MapAdapter, Rule
from werkzeug.wrappers import Request, Response

from vertex_local import Json
from vertex_local.api import comments
from vertex_local.api.query import masks
from vertex_local.api.routes import Call, Message, RawRoute, Route
from vertex_local.api.service import Service
from vertex_local.client import TOKEN_FILE, TOKEN_VARIABLE
from vertex_local.errors import ApiError, invalid_argument, of_exception
from vertex_local.http.channel import LOCAL_HOST, is_admitted
from vertex_local.http.server import MAX_BODY_BYTES

logger = logging.getLogger(__name__)

ErrorPage = Callable[[Service, ApiError, Mapping[str, str]], Message]
SAFE_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}(@[a-zA-Z0-9_-]{1,128})?")

# Paths of Google's APIs: Vertex AI, and Cloud Logging (v2); and the kinds of resources in routes.
GOOGLES = re.compile(r"/(v[0-9]\w+|(v1|v2|ui)(?=/(projects/|publishers/|entries|operations)))/")
KIND = re.compile(r"projects/<project>/locations/<location>/(\w+)")

GZIP = 31  # zlib's `wbits` for it

# Requests that are allowed on a full disk: they add no data, or stop processes that do.
SPACELESS_METHODS = ("GET", "HEAD", "DELETE")
SPACELESS_SUFFIXES = (
    ":cancel",
    ":undeployModel",
    ":pause",
    ":predict",
    ":rawPredict",
    ":wait",
    "/entries:list",
)


class SegmentConverter(BaseConverter):
    """Path segment, or the part of it before the `:` of a custom method."""

    regex = "[^/:]+"


class MatchedRule(Rule):
    """Rule without a builder of URLs, which nothing uses and which takes longest to compile."""

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        return lambda rule, **values: ("", "")


class Application:
    """WSGI application for the routes of the resource modules."""

    def __init__(
        self, service: Service, routes: Iterable[Route], error_page: ErrorPage | None = None
    ) -> None:
        self._service, self._error_page = service, error_page
        routes = list(routes)
        self._kinds = ", ".join(sorted({m[1] for r in routes if (m := KIND.match(r.pattern))}))
        self.url_map = Map(
            [_rule(route) for route in routes],
            converters={"default": SegmentConverter},
            strict_slashes=False,
            merge_slashes=False,
        )

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        """Handle a request."""
        started = time.monotonic()
        request = Request(environ)
        response = self._respond(request)
        response.headers["X-Content-Type-Options"] = "nosniff"
        logger.log(
            logging.DEBUG if request.method == "GET" else logging.INFO,
            "%s %s %d %.0f ms",
            request.method,
            request.path,
            response.status_code,
            1000 * (time.monotonic() - started),
        )
        return response(environ, start_response)

    def _respond(self, request: Request) -> Response:
        try:
            _refuse_cross_site(request)
            if entrance := self._admit(request):
                return entrance
            if self._service.closing.is_set():
                # Not UNAVAILABLE, which clients would retry.
                raise ApiError("ABORTED", "The service is shutting down.")
            return self._dispatch(request)
        except Exception as error:
            return self._error_response(request, error)

    def _admit(self, request: Request) -> Response | None:
        """Refuse a request without the token; let a browser that has it in the address keep it.

        The cookie's name has the port, which browsers ignore: other services have other names.
        """
        token = self._service.token
        cookie = f"vertex-local-{self._service.url.rpartition(':')[2]}"
        named = f"Bearer {request.args.get('token', '')}"
        if token and request.method == "GET" and is_admitted(token, named):
            query = urlencode(
                [pair for pair in request.args.items(multi=True) if pair[0] != "token"]
            )
            address = f"{request.base_url}?{query}" if query else request.base_url
            response = Response(status=303, headers={"Location": address})
            response.set_cookie(cookie, token, httponly=True, samesite="Lax")
            return response
        kept = f"Bearer {request.cookies.get(cookie, '')}"
        if is_admitted(token, request.headers.get("Authorization", kept)):
            return None
        raise ApiError(
            "PERMISSION_DENIED",
            "The request has no valid token: send `Authorization: Bearer TOKEN` with the content "
            f"of ROOT/{TOKEN_FILE}, which is {TOKEN_VARIABLE} in the service's own processes, or "
            "open the address that the service printed when it started.",
        )

    def _error_response(self, request: Request, error: Exception) -> Response:
        if isinstance(error, NotFound | MethodNotAllowed):
            problem = self._missing(request)
        elif isinstance(error, HTTPException):
            text = error.description or error.name
            problem = ApiError("INVALID_ARGUMENT", text, code=error.code or 500)
        else:
            problem = of_exception(error)
        response = _json_response(problem.to_body(), code=problem.code)
        host, accepted = (request.headers.get(name, "") for name in ("Host", "Accept"))
        # The page for a foreign Host would be of its origin, whose scripts could read it.
        if self._error_page and "text/html" in accepted and LOCAL_HOST.fullmatch(host):
            page = self._error_page(self._service, problem, request.args)
            response = Response(page.data, status=page.status, headers=page.fields)
        if isinstance(error, MethodNotAllowed) and error.valid_methods:
            response.headers["Allow"] = ", ".join(error.valid_methods)
        return response

    def _missing(self, request: Request) -> ApiError:
        """Return a 501 error for a possible path of Vertex AI, 404 for any other."""
        if not GOOGLES.match(request.path):
            return ApiError(
                "NOT_FOUND",
                f"{request.path} is not a path of this service; its page is /, its API begins at "
                "/v1/projects/PROJECT/locations/LOCATION/models.",
            )
        return ApiError(
            "UNIMPLEMENTED",
            f"vertex-local does not implement {request.method} {request.path}; of version v1 of "
            f"the API it has the methods in COVERAGE.md, of {self._kinds}.",
        )

    def _dispatch(self, request: Request) -> Response:
        adapter: MapAdapter = self.url_map.bind_to_environ(request.environ)
        route, args = adapter.match()
        for name, value in args.items():
            if not SAFE_ID.fullmatch(value):
                raise invalid_argument(
                    f'{name} "{value}" in the path is not valid; it must match {SAFE_ID.pattern}.'
                )
        if request.method not in SPACELESS_METHODS and not request.path.endswith(
            SPACELESS_SUFFIXES
        ):
            self._service.store.reserve.require_space()
        query = comments.parameters(f"{route.method} {route.pattern}", request.args.to_dict())
        if isinstance(route, RawRoute):
            fields = {name: request.headers[name] for name in route.kept if name in request.headers}
            message = Message(_body(request), fields)
            call = Call(args=dict(args), query=query, message=message)
            response = route.handler(self._service, call)
            return Response(response.data, status=response.status, headers=response.fields)
        body = Message(_body(request)).json()
        content = route.handler(self._service, Call(dict(args), query, body))
        mask = masks.parse(query.get("fields", ""), parameter="fields")
        return _json_response(masks.apply(mask, content))


def _rule(route: Route) -> MatchedRule:
    pattern = route.pattern if route.pattern.startswith("/") else f"/v1/{route.pattern}"
    return MatchedRule(pattern, methods=[route.method], endpoint=route)


def _refuse_cross_site(request: Request) -> None:
    """Refuse requests from web pages: by DNS rebinding (Host) and cross-site (Origin)."""
    host = request.headers.get("Host", "")
    if not LOCAL_HOST.fullmatch(host):
        raise ApiError(
            "PERMISSION_DENIED",
            f'Host "{host}" is refused; use 127.0.0.1:PORT or localhost:PORT.',
        )
    origin = request.headers.get("Origin")
    if origin is not None and origin != f"http://{host}":
        raise ApiError(
            "PERMISSION_DENIED",
            f'Requests from web pages of another origin ("{origin}") are refused.',
        )


def _body(request: Request) -> bytes:
    data = request.get_data(cache=False)
    if request.headers.get("Content-Encoding", "identity") == "identity":
        return data
    unpacker = zlib.decompressobj(wbits=GZIP)
    with suppress(zlib.error):
        data = unpacker.decompress(data, MAX_BODY_BYTES)
    if not unpacker.eof:
        raise invalid_argument(f"The body is not gzip, or more than {MAX_BODY_BYTES:,} bytes.")
    return data


def _json_response(body: Json, *, code: int = 200) -> Response:
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError:
        text = json.dumps(_with_words(body), ensure_ascii=False, allow_nan=False) + "\n"
    return Response(text, status=code, content_type="application/json; charset=utf-8")


def _with_words(value: Any) -> Any:
    """Return a value with the words that protobuf's JSON has for NaN and infinities."""
    if isinstance(value, dict):
        return {name: _with_words(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_words(item) for item in value]
    is_word = isinstance(value, float) and not math.isfinite(value)
    return json.dumps(value) if is_word else value
