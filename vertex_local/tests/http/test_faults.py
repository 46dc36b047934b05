"""Injected faults: the specification, and which requests they hit, without a socket."""

import itertools
import threading
from collections import Counter

import pytest

from vertex_local.tests.support.faults import Faults, FaultsError, FaultyApplication

pytestmark = pytest.mark.fast

QUARTER = {"429": 0.25, "503": 0.25, "reset": 0.25, "late": 0.25}


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("any=1", dict.fromkeys(("GET", "POST", "PATCH", "DELETE"), QUARTER)),
        ("GET:503=0.05,reset=0.02", {"GET": {"503": 0.05, "reset": 0.02}}),
        (
            "GET+DELETE:429=0.5; POST:late=0.1",
            {"GET": {"429": 0.5}, "DELETE": {"429": 0.5}, "POST": {"late": 0.1}},
        ),
    ],
)
def test_shares_are_by_method_and_kind(text, shares):
    faults = Faults.parse(text)
    assert {method: kinds for method, kinds in faults.shares.items() if kinds} == shares


def test_options_follow_the_shares():
    faults = Faults.parse("any=0.1;late-seconds=0.5;seed=7;slow-deploy-seconds=3")
    assert (faults.late_seconds, faults.seed, faults.slow_deploy_seconds) == (0.5, 7, 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("any", "'any'.*NAME=NUMBER"),
        ("GET:404=0.1", "'404'.* 429, 503, reset, late, any"),
        ("FETCH:503=0.1", "'FETCH'.* GET, POST, PATCH, DELETE"),
        ("503=0.1;late-seconds=soon", "'soon'.*NAME=NUMBER"),
        ("503=-0.1", "'-0.1'.*NAME=NUMBER"),
        ("503=nan", "'nan'.*NAME=NUMBER"),
        ("any=0.6;GET:late=0.6", r"GET: .*1\.2"),
    ],
)
def test_the_error_of_an_invalid_specification_has_the_allowed_values(text, words):
    with pytest.raises(FaultsError, match=words):
        Faults.parse(text)


def outcomes(text: str, *methods: str, num: int = 4000) -> list[tuple[str, bool]]:
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
    expected = {"429": 400, "503": 400, "reset": 400, "200": 2800}
    for kind, number in expected.items():
        assert sum(counts[kind, is_done] for is_done in (True, False)) == pytest.approx(
            number, rel=0.15
        )
    for kind in ("503", "reset"):
        assert counts[kind, True] == pytest.approx(counts[kind, False], rel=0.25)


def test_requests_of_other_methods_do_not_fail():
    assert set(outcomes("GET:503=1", "GET", "POST", num=9)) == {("200", True)}
