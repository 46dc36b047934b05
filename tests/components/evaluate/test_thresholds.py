from dataclasses import astuple

import pytest

from components.evaluate.thresholds import (
    check_limits,
    judge,
    parse_thresholds,
    read_limits,
    with_threshold,
)
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast

METRICS = {"accuracy": 0.9712, "loss": 0.08, "rmse": 1234567.89, "auc": 0.98499}


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
        ({"accuracy": {"at_most": 0.9}}, "failed", ("accuracy 0.9712 is above 0.9",)),
        ({"loss": {"at_least": 0.01}}, "passed", ("loss 0.0800 is at least 0.01",)),
        ({}, "passed", ("no threshold is set",)),
        ({"auc": 0.985}, "failed", ("auc 0.98499 is below 0.985",)),
        ({"rmse": 1000000}, "failed", ("rmse 1,234,567.9 is above 1,000,000",)),
    ],
    ids=[
        "reached",
        "missed",
        "exactly",
        "loss low",
        "loss high",
        "one of two",
        "upside down",
        "at least",
        "none",
        "not rounded away",
        "large",
    ],
)
def test_a_verdict_has_a_reason_for_each_threshold(thresholds, verdict, reasons):
    judgement = judge(check_limits(METRICS, read_limits(thresholds)))
    assert judgement.verdict == verdict
    assert judgement.reasons == reasons


def test_an_unknown_metric_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"acuracy.*did you mean 'accuracy'.*accuracy, loss"):
        judge(check_limits(METRICS, read_limits({"acuracy": 0.9})))


def test_a_metric_of_the_users_own_needs_a_direction():
    with pytest.raises(ConfigError, match=r"thresholds.mape is 0.5.*\{at_most: 0.5\}"):
        judge(check_limits({"mape": 0.4}, read_limits({"mape": 0.5})))


def test_a_threshold_is_a_number_or_numbers_by_direction():
    text = '{"accuracy": 1, "loss": 0.5, "rmse": {"at_most": 3.2, "at_least": 0}}'
    assert [astuple(limit) for limit in parse_thresholds(text)] == [
        ("accuracy", "at_least", 1.0),
        ("loss", "at_most", 0.5),
        ("rmse", "at_most", 3.2),
        ("rmse", "at_least", 0.0),
    ]


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ({"rmse": 5.0}, "rmse", 3.2),
        ({"rmse": {"at_most": 5.0}}, "rmse", 3.2),
        ({}, "rmse.at_most", {"at_most": 3.2}),
        ({"rmse": 5.0}, "rmse.at_most", {"at_most": 3.2}),
        ({"rmse": 5.0}, "rmse.at_least", {"at_most": 5.0, "at_least": 3.2}),
        ({"r2": 0.5}, "r2.at_most", {"at_least": 0.5, "at_most": 3.2}),
    ],
)
def test_a_later_threshold_replaces_that_of_the_same_direction(before, key, after):
    metric = key.partition(".")[0]
    assert with_threshold({**before, "loss": 1.0}, key, 3.2) == {"loss": 1.0, metric: after}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "''.*not JSON.*0.985"),
        ("accuracy=0.9", "'accuracy=0.9'.*not JSON.*0.985"),
        ("[0.9]", r"'\[0.9\]'.*JSON object.*0.985"),
        ('{"accuracy": "0.9"}', "accuracy.*'0.9'.*number"),
        ('{"accuracy": true}', "accuracy.*True.*number"),
        ('{"accuracy": NaN}', "accuracy.*nan.*number"),
        ('{"accuracy": 1e999}', "accuracy.*inf.*number"),
        ('{"accuracy": 0.9, "accuracy": 0.1}', "'accuracy' twice"),
        ('{"rmse": {"at_mots": 3}}', "rmse.*'at_mots'.*did you mean 'at_most'"),
        ('{"rmse": {"at_most": "3"}}', "rmse.*'3'.*number"),
        ('{"rmse": {}}', "rmse.*{}.*number"),
    ],
    ids=[
        "empty",
        "no json",
        "list",
        "text",
        "bool",
        "nan",
        "infinite",
        "twice",
        "direction",
        "text by direction",
        "no direction",
    ],
)
def test_thresholds_are_read_strictly(text, problem):
    with pytest.raises(ConfigError, match=problem):
        parse_thresholds(text)
