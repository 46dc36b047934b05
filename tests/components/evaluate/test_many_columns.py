"""Importance of many columns: the largest are found with few measurements."""

import pytest

from components.evaluate.gate.gain import Gain
from components.evaluate.importance import largest_gains

COLUMNS = [f"c{number}" for number in range(1_000)]
LOSSES = {"c3": 0.2, "c500": 0.1, "c999": 0.15}


def measure(calls: list):
    def gain_without(block):
        calls.append(len(block))
        loss = sum(LOSSES.get(column, 0.0) for column in block)
        return Gain(metric="auc", candidate=0.9, other=0.9 - loss, confidence=0.95, low=0, high=1)

    return gain_without


def test_the_largest_of_many_are_found_with_few_measurements():
    calls = []
    gains = largest_gains(COLUMNS, measure(calls), most=100)
    assert len(calls) <= 100
    assert {name: gains[name].difference for name in LOSSES} == pytest.approx(LOSSES)


@pytest.mark.parametrize("most", [1_000, 5_000])
def test_all_of_few_are_measured_alone(most):
    calls = []
    gains = largest_gains(COLUMNS, measure(calls), most=most)
    assert list(gains) == COLUMNS
    assert calls == [1] * 1_000


def test_a_block_whose_metric_is_not_defined_is_left():
    gain = Gain(metric="auc", candidate=0.9, other=float("nan"), confidence=0.95)
    assert largest_gains(COLUMNS, lambda block: gain, most=50) == {}
