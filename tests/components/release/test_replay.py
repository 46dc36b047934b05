"""Judgement of replays, on latencies that were recorded while this machine was busy."""

import json
import math
import random

import pytest

from components.release.canary import is_above
from components.release.options import ReleaseOptions
from components.release.replay import Answer, answer_in_turns, is_changed, judge, measurements
from vertex_local.tests.support.http_server import Handler, serving

pytestmark = pytest.mark.fast

DEFAULTS = ReleaseOptions()
REQUESTS = 200
# Milliseconds of requests to a prediction server on a busy machine; one in twenty is delayed.
RECORDED_MS = [1.9, 2.0, 2.0, 2.1, 2.1, 2.2, 2.2, 2.3, 2.4, 2.4, 2.5, 2.6, 2.7, 2.9, 3.2, 3.6, 4.4]
RECORDED_MS += [5.9, 8.8, 24.0]


def trial(chance: random.Random, *, slowdown: float = 1.0, share_changed: float = 0.0):
    """Return the pairs of a replay of as many requests as by default."""

    def answer(label: str, factor: float) -> Answer:
        milliseconds = factor * chance.choice(RECORDED_MS)
        return Answer(predictions=[{"label": label}], milliseconds=milliseconds)

    return [
        (answer("b" if chance.random() < share_changed else "a", slowdown), answer("a", 1.0))
        for _ in range(REQUESTS)
    ]


def share_stopped(options: ReleaseOptions, *, num_trials: int, rounds: int = 1, **candidate):
    """Return in which share of trials, each of some rounds of requests, a candidate is stopped."""
    chance = random.Random(1)
    trials = (
        [pair for _ in range(rounds) for pair in trial(chance, **candidate)]
        for _ in range(num_trials)
    )
    return sum(bool(judge(pairs, options=options)) for pairs in trials) / num_trials


@pytest.mark.parametrize(
    ("max_changed", "candidate"),
    [
        (None, {"slowdown": 2.0}),
        (0.0, {"share_changed": 0.05}),
        (0.01, {"share_changed": 0.05, "rounds": 5}),
    ],
    ids=["twice as slow", "one in twenty answers changed", "with a limit, by more requests"],
)
def test_a_worse_candidate_is_stopped(max_changed, candidate):
    options = ReleaseOptions(max_changed=max_changed)
    assert share_stopped(options, num_trials=20, **candidate) == 1


@pytest.mark.parametrize("max_changed", [None, 0.0, 0.01])
def test_an_equal_candidate_is_stopped_in_at_most_5_of_100_trials(max_changed):
    options = ReleaseOptions(max_changed=max_changed)
    assert share_stopped(options, num_trials=100) <= 0.05


def test_changed_answers_are_only_counted_without_a_limit():
    pairs = trial(random.Random(1), share_changed=1.0)

    assert judge(pairs, options=ReleaseOptions()) == []
    assert measurements(pairs, max_change=0.01)["num_changed"] == REQUESTS


def test_errors_of_the_candidate_stop_it_but_not_those_of_both():
    good = Answer(predictions=[{"label": "a"}], milliseconds=2.0)
    bad = Answer(predictions=None, milliseconds=2.0, error="500: no")
    options = ReleaseOptions()

    assert judge([(good, good)] * 95 + [(bad, good)] * 5, options=options)
    assert not judge([(good, good)] * 99 + [(bad, good)], options=options)
    assert not judge([(good, good)] * 95 + [(bad, bad)] * 5, options=options)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_answers_that_are_not_finite_are_errors_of_the_candidate(value):
    good = Answer(predictions=[{"label": "a", "probabilities": [0.5]}], milliseconds=2.0)
    bad = Answer(predictions=[{"label": "a", "probabilities": [value]}], milliseconds=2.0)

    [reason] = judge([(good, good)] * 95 + [(bad, good)] * 5, options=DEFAULTS)
    assert reason.startswith("5 of 100 failed")
    assert "not finite numbers" in reason
    assert measurements([(bad, good)], max_change=0.01)["num_replay_errors"] == 1
    # A hook may return null for both, and a broken version must be replaceable.
    assert not judge([(bad, bad)] * 50 + [(good, bad)] * 50, options=DEFAULTS)


@pytest.mark.parametrize("body", [{"predictions": [1]}, {"predictions": []}, {"outputs": [1, 2]}])
def test_missing_predictions_are_errors(body):
    class Answering(Handler):
        def do_POST(self) -> None:
            found = body if self.path == "/new" else {"predictions": [1, 2]}
            self.respond(200, json.dumps(found).encode())

    with serving(Answering) as host:
        pairs = answer_in_turns(
            [["a", "b"]] * 3, new_url=f"http://{host}/new", serving_url=f"http://{host}/old"
        )

    [reason] = judge(pairs, options=DEFAULTS)
    assert reason.startswith("3 of 3 failed")
    assert reason.endswith("predictions for 2 instances")


def test_both_servers_answer_as_often_before_a_latency_counts():
    paths = []

    class Counting(Handler):
        def do_POST(self) -> None:
            paths.append(self.path)
            self.respond(200, b'{"predictions": [1]}')

    with serving(Counting) as host:
        answer_in_turns([["a"]] * 2, new_url=f"http://{host}/new", serving_url=f"http://{host}/old")
    assert paths.count("/new") == paths.count("/old") == 4


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ({"label": "a", "probabilities": [0.9]}, {"label": "a", "probabilities": [0.6]}, False),
        ({"label": "a"}, {"label": "b"}, True),
        ({"labels": ["a"]}, {"labels": ["a", "b"]}, True),
        ({"value": 100.5}, {"value": 100.0}, False),
        ({"value": 102.0}, {"value": 100.0}, True),
        ({"price": None}, {"price": 1.0}, True),
        ([1.0], [1.0, 2.0], True),
        ({"value": float("nan")}, {"value": 1.0}, True),
    ],
)
def test_answers_of_classes_and_numbers(new, old, expected):
    assert is_changed(new, old, max_change=0.01) is expected


@pytest.mark.parametrize(
    ("count", "total", "limit", "expected"),
    [
        (1, 200, 0.0, True),
        (0, 200, 0.0, False),
        (1, 200, 0.01, False),
        (8, 200, 0.01, True),
        (116, 200, 0.5, False),
        (118, 200, 0.5, True),
        (0, 0, 0.5, False),
        (3, 3, 1.0, False),
    ],
)
def test_evidence_is_beyond_chance(count, total, limit, expected):
    assert is_above(count, total, limit=limit) is expected
