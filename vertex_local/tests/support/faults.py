"""Injected failures of a share of all requests, and slow deployments, to test clients with.

    any=0.1                             a tenth of all requests fails, in one of the four ways
    GET:503=0.05,reset=0.02;POST:429=0.1
    any=0.2;late-seconds=3;seed=7
    slow-deploy-seconds=20              a deployment takes 20 s longer and cannot be stopped

A request fails with `429` (it is not handled), with `503` or `reset` (half of these requests are
handled before they fail; a reset connection has no response), or its response is `late`.

A slow deployment completes although it was cancelled, or its model deleted, in the meantime.
"""

import json
import logging
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from waitress.channel import ClientDisconnected

from vertex_local.errors import ApiError

logger = logging.getLogger(__name__)

KINDS = ("429", "503", "reset", "late")
ANY = "any"
METHODS = ("GET", "POST", "PATCH", "DELETE")
LATE_SECONDS = 2.0
SECONDS_OPTIONS = ("late-seconds", "slow-deploy-seconds")
SERVER_ERRORS = {429: "429 Too Many Requests", 503: "503 Service Unavailable"}

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class FaultsError(ValueError):
    """A specification of faults is invalid; the message has the allowed values."""


@dataclass(frozen=True)
class Faults:
    """Shares of requests that fail, by method and kind.

    The same seed gives the same sequence of each method, however many others come between.
    """

    shares: dict[str, dict[str, float]]
    late_seconds: float = LATE_SECONDS
    slow_deploy_seconds: float = 0.0
    seed: int = 0

    @classmethod
    def parse(cls, text: str) -> "Faults":
        """Read `METHOD+METHOD:KIND=SHARE,KIND=SHARE;…;seed=N;late-seconds=N;…`.

        Raises:
            FaultsError: The text is invalid.
        """
        shares: dict[str, dict[str, float]] = {method: {} for method in METHODS}
        options: dict[str, Any] = {}
        for clause in filter(None, (clause.strip() for clause in text.split(";"))):
            name, _, value = clause.partition("=")
            if name == "seed":
                options["seed"] = int(_number(clause, value))
            elif name in SECONDS_OPTIONS:
                options[name.replace("-", "_")] = _number(clause, value)
            else:
                _add_shares(shares, clause)
        for method, kinds in shares.items():
            if sum(kinds.values()) > 1:
                raise FaultsError(
                    f"{method}: the shares add up to {sum(kinds.values()):g}, more than 1"
                )
        return cls(shares=shares, **options)


@dataclass
class FaultyApplication:
    """WSGI application that passes requests on to `application`, except those that are to fail."""

    application: Wsgi
    faults: Faults
    closing: threading.Event
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._draws = {m: random.Random(f"{self.faults.seed} {m}") for m in METHODS}
        self._lock = threading.Lock()
        shares = {method: kinds for method, kinds in self.faults.shares.items() if kinds}
        logger.warning("Faults are injected into a share of all requests: %s", shares)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        """Handle a request."""
        kind, is_handled = self._choose(environ["REQUEST_METHOD"])
        if not kind:
            return self.application(environ, start_response)
        self._count(environ, kind, is_handled=is_handled)
        if kind == "late":
            response = list(self.application(environ, start_response))
            self.closing.wait(self.faults.late_seconds)
            return response
        if is_handled:
            for _ in self.application(environ, lambda *_: None):
                pass
        if kind == "reset":
            raise _reset(environ)
        return _refuse(int(kind), start_response)

    def _choose(self, method: str) -> tuple[str, bool]:
        """Return the kind of failure, "" for none, and whether to handle the request before it."""
        if method not in self._draws:
            return "", False
        with self._lock:
            drawn, coin = self._draws[method].random(), self._draws[method].random()
        for kind, share in self.faults.shares[method].items():
            drawn -= share
            if drawn < 0:
                return kind, kind in ("503", "reset") and coin < 0.5
        return "", False

    def _count(self, environ: dict[str, Any], kind: str, *, is_handled: bool) -> None:
        name = f"{kind} after" if is_handled else kind
        with self._lock:
            self.counts[name] = self.counts.get(name, 0) + 1
            total = sum(self.counts.values())
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        logger.warning("fault %d: %s: %s %s", total, name, method, path)


def _add_shares(shares: dict[str, dict[str, float]], clause: str) -> None:
    before, colon, after = clause.partition(":")
    methods = before.split("+") if colon else METHODS
    for method in methods:
        if method not in METHODS:
            raise FaultsError(f"{clause!r}: {method!r} is not one of {', '.join(METHODS)}")
    for item in (after if colon else clause).split(","):
        kind, _, value = item.strip().partition("=")
        if kind not in (*KINDS, ANY):
            raise FaultsError(f"{clause!r}: {kind!r} is not one of {', '.join((*KINDS, ANY))}")
        share = _number(item, value)
        kinds = KINDS if kind == ANY else (kind,)
        for method in methods:
            for one in kinds:
                shares[method][one] = shares[method].get(one, 0.0) + share / len(kinds)


def _number(item: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise FaultsError(f"{item!r}: {value!r} is not a number of at least 0; write NAME=NUMBER")
    return number


def _refuse(code: int, start_response: Callable[..., Any]) -> list[bytes]:
    message = "An injected fault; try again."
    is_quota = code == HTTPStatus.TOO_MANY_REQUESTS
    error = ApiError("RESOURCE_EXHAUSTED" if is_quota else "UNAVAILABLE", message)
    body = json.dumps(error.to_body()).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response(SERVER_ERRORS[code], headers)
    return [body]


def _reset(environ: dict[str, Any]) -> Exception:
    """Prepare a reset; return the exception that closes the connection without a response."""
    is_disconnected = environ.get("waitress.client_disconnected")
    if is_disconnected is None:
        return ConnectionResetError("an injected fault")
    client = is_disconnected.__self__.socket
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    disconnected: Exception = ClientDisconnected()
    return disconnected
