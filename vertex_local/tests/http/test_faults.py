"""Injected faults: the specification, and which requests they hit, without a socket."""

import itertools
import threading
from collections import Counter

import pytest

from vertex_local.tests.support.faults import Faults, FaultsError, FaultyApplication

pytestmark = pytest.mark.fast


def test_a_specification_has_shares_by_method_and_kind_and_options():
    faults = Faults.parse(
        "any=0.4; GET+DELETE:429=0.5;late-seconds=0.5;seed=7;slow-deploy-seconds=3"
    )
    every = dict.fromkeys(("429", "503", "reset", "late"), 0.1)
    failing = {**every, "429": 0.6}
    assert faults.shares == {"GET": failing, "POST": every, "PATCH": every, "DELETE": failing}
    assert (faults.late_seconds, faults.seed, faults.slow_deploy_seconds) == (0.5, 7, 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("any", "'any'.*NAME=NUMBER"),
        ("GET:404=0.1", "'404'.* 429, 503, reset, late, any"),
        ("FETCH:503=0.1", "'FETCH'.* GET, POST, PATCH, DELETE"),
        ("503=nan", "'nan'.*NAME=NUMBER"),
        ("any=0.6;GET:late=0.6", r"GET: .*1\.2"),
    ],
)
def test_the_error_of_an_invalid_specification_has_the_allowed_values(text, words):
    with pytest.raises(FaultsError, match=words):
        Faults.parse(text)


def outcomes(text: str, *methods: str, num: int = 1000) -> list[tuple[str, bool]]:
    """Send requests of the methods in turn; return the responses to POST, and which was handled."""
    done: set[str] = set()

    def application(environ, start_response):
        done.add(environ["PATH_INFO"])
        start_response("200 OK", [])
        return [b"{}"]

    faulty = FaultyApplication(application, Faults.parse(text), threading.Event())
    found = {}
    for number, method in itertools.product(range(num), methods or ("POST",)):
        path, statuses = f"/{method}/{number}", []
        try:
            faulty(
                {"REQUEST_METHOD": method, "PATH_INFO": path},
                lambda status, headers, statuses=statuses: statuses.append(status[:3]),
            )
        except ConnectionResetError:
            statuses.append("reset")
        found[path] = statuses[0]
    return [(found[p], p in done) for p in found if p.startswith("/POST")]


def test_the_same_seed_hits_the_same_requests():
    spec = "any=0.5;late-seconds=0"
    assert outcomes(f"{spec};seed=1") == outcomes(f"{spec};seed=1")
    assert outcomes(f"{spec};seed=1") != outcomes(f"{spec};seed=2")
    assert outcomes(spec) == outcomes(spec, "GET", "PUT", "POST")


def test_shares_are_met_and_half_of_the_failed_requests_are_handled():
    counts = Counter(outcomes("any=0.4;late-seconds=0;seed=3"))
    assert set(counts) == {
        ("200", True),  # includes late responses
        ("429", False),
        ("503", False),
        ("503", True),
        ("reset", False),
        ("reset", True),
    }
    for kind in ("503", "reset"):
        assert counts[kind, True] == pytest.approx(50, rel=0.3)
        assert counts[kind, False] == pytest.approx(50, rel=0.3)
    assert counts["429", False] == pytest.approx(100, rel=0.3)


def test_requests_of_other_methods_do_not_fail():
    assert set(outcomes("GET:503=1", "GET", "POST", num=9)) == {("200", True)}
