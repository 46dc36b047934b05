import math

import pytest

from components.errors import StepError
from components.evaluate.thresholds import judge, parse_thresholds

pytestmark = pytest.mark.fast

METRICS = {"accuracy": 0.9712, "loss": 0.08}


@pytest.mark.parametrize(
    ("thresholds", "verdict", "reasons"),
    [
        ({"accuracy": 0.97}, "passed", ("accuracy 0.9712 is at least 0.97",)),
        ({"accuracy": 0.985}, "failed", ("accuracy 0.9712 is below 0.985",)),
        ({"accuracy": 0.9712}, "passed", ("accuracy 0.9712 is at least 0.9712",)),
        ({"loss": 0.1}, "passed", ("loss 0.0800 is at most 0.1",)),
        ({"loss": 0.05}, "failed", ("loss 0.0800 is above 0.05",)),
        (
            {"accuracy": 0.985, "loss": 0.1},
            "failed",
            ("accuracy 0.9712 is below 0.985", "loss 0.0800 is at most 0.1"),
        ),
        ({}, "passed", ("no threshold is set",)),
    ],
    ids=["reached", "missed", "exactly", "loss low", "loss high", "one of two", "none"],
)
def test_a_verdict_has_a_reason_for_each_threshold(thresholds, verdict, reasons):
    judgement = judge(METRICS, thresholds)
    assert judgement.verdict == verdict
    assert judgement.reasons == reasons


def test_a_near_miss_is_not_rounded_away():
    judgement = judge({"accuracy": 0.98499}, {"accuracy": 0.985})
    assert judgement.reasons == ("accuracy 0.98499 is below 0.985",)


def test_a_metric_that_is_not_a_number_fails():
    judgement = judge({"loss": math.nan}, {"loss": 1.0})
    assert judgement.verdict == "failed"
    assert "loss is not a number" in judgement.reasons[0]


def test_an_unknown_metric_is_refused_with_the_known_ones():
    with pytest.raises(StepError, match=r"'acuracy'.*accuracy, loss"):
        judge(METRICS, {"acuracy": 0.9})


def test_reads_whole_and_fractional_numbers():
    assert parse_thresholds('{"accuracy": 1, "loss": 0.5}') == {"accuracy": 1.0, "loss": 0.5}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "''.*not JSON.*0.985"),
        ("accuracy=0.9", "'accuracy=0.9'.*not JSON.*0.985"),
        ("[0.9]", r"'\[0.9\]'.*JSON object.*0.985"),
        ('{"accuracy": "0.9"}', "accuracy.*'0.9'.*number"),
        ('{"accuracy": true}', "accuracy.*True.*number"),
        ('{"accuracy": NaN}', "NaN.*number"),
        ('{"accuracy": 1e999}', "accuracy.*inf.*number"),
        ('{"accuracy": 0.9, "accuracy": 0.1}', "'accuracy' twice"),
    ],
    ids=["empty", "no json", "list", "text", "bool", "nan", "infinite", "twice"],
)
def test_thresholds_are_read_strictly(text, problem):
    with pytest.raises(StepError, match=problem):
        parse_thresholds(text)
