"""Canary of a version: requests whose errors do not name the version that failed."""

from types import SimpleNamespace

import pytest
import requests

from components.errors import StepError
from components.release import canary
from components.release.options import ReleaseOptions
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.resource_name import ResourceName

pytestmark = pytest.mark.fast

VERSION = ResourceName.from_name("projects/p/locations/l/models/1@2")
GOLDEN = {"instances": [1], "predictions": ["a"], "labels": ["a"]}
NUM_PROBES = 1000


def watch(monkeypatch, respond, **options) -> dict[str, float]:
    """Watch a canary of 1000 requests; `respond(number)` returns the version that answers."""
    seconds = iter(range(2 * NUM_PROBES + 2))
    clock = SimpleNamespace(monotonic=lambda: next(seconds) / 2, sleep=lambda _: None)
    numbers = iter(range(NUM_PROBES + 2))

    def predict(*_):
        if not (version := respond(next(numbers))):
            raise VertexError(code=500, status="INTERNAL", message="failed")
        return SimpleNamespace(model_version=version, predictions=["a"])

    monkeypatch.setattr(canary, "time", clock)
    monkeypatch.setattr(canary, "request_predictions", predict)
    monkeypatch.setattr(canary, "server_states", lambda *_: {})
    monkeypatch.setattr(VertexApi, "get", lambda *_: {"name": "e"})
    api = VertexApi("", "", project="p", location="l", session=requests.Session())
    chosen = ReleaseOptions(canary_seconds=NUM_PROBES, **options)
    return canary.watch(api, "e", VERSION, GOLDEN, options=chosen)


def test_rare_errors_of_the_version_that_serves_do_not_reject_a_small_canary(monkeypatch):
    def respond(number: int) -> str:
        return "" if number % 250 == 7 else "2" if number % 100 == 1 else "1"

    values = watch(monkeypatch, respond, canary=["1"])

    assert values["num_canary_errors"] == 4
    assert values["num_canary_answers"] == 10


def test_a_failing_version_is_rejected(monkeypatch):
    with pytest.raises(StepError, match="requests failed"):
        watch(monkeypatch, lambda number: "" if number % 10 == 1 else "1", canary=["10"])


def test_errors_that_one_of_many_tests_finds_by_chance_do_not_reject(monkeypatch):
    def respond(number: int) -> str:
        return "" if 193 <= number < 200 else "1"

    values = watch(monkeypatch, respond, canary=["10"], max_error_rate=0.01)

    assert values["num_canary_errors"] == 7
