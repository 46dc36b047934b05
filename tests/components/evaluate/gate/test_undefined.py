"""Metrics that are not defined: none of the gate's comparisons passes because of them."""

import dataclasses
import math

import numpy as np
import pytest

from components.evaluate.assess import without_broken_champion
from components.evaluate.gate.checks import check_comparison, check_predictions, is_slice_ok
from components.evaluate.gate.comparison import CHAMPION, Comparison, Slice, compare
from components.evaluate.gate.gain import Gain
from components.evaluate.gate.options import CONSTANT, LINEAR, GateOptions
from components.evaluate.held_out import HeldOut
from components.evaluate.thresholds import check_limits, judge, read_limits
from tests.support.data.held_out import held_out
from trainer.workloads import Binary, Multilabel, Regression

pytestmark = pytest.mark.fast

SIZE = 60
TRUTH = np.arange(SIZE) % 2
NUMBERS = {"nan": math.nan, "+inf": math.inf, "-inf": -math.inf}
PLANS = np.array(["basic", "pro", "pro"] * (SIZE // 3), object)


def probabilities(truth=TRUTH, strength: float = 0.3):
    """Return probabilities that are right, and not all the same."""
    positive = 0.5 + strength * (2 * truth - 1) + 0.001 * (np.arange(len(truth)) % 7)
    return np.stack([1 - positive, positive], axis=1)


def of_plans(predictions, labels=TRUTH, *, label=None, **rivals) -> HeldOut:
    columns = {"plan": PLANS[: len(labels)]}
    label = label or Binary("y")
    return held_out(labels, predictions, label=label, columns=columns, rivals=rivals)


def with_value(predictions, value: float, row: int = 3):
    changed = predictions.copy()
    changed[row] = value
    return changed


def checks_of(data: HeldOut, **settings):
    options = GateOptions(**settings)
    comparison = compare(data, options, rules=options.rules, missing={})
    return check_comparison(comparison, options, champion="version 3")


@pytest.mark.parametrize("value", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("limit", [{"auc": 0.5}, {"loss": 1.0}, {"loss": {"at_least": 0.0}}])
def test_no_threshold_is_met_by_a_value_that_is_not_finite(limit, value):
    [metric] = limit
    found = judge(
        check_limits({metric: value}, read_limits(limit), why_undefined=lambda name: f"no {name}s")
    )
    assert found.verdict == "failed"
    assert f"{metric} is not defined: no {metric}s; " in found.reasons[0]


@pytest.mark.parametrize("value", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("field", ["candidate", "other", "low", "high"])
@pytest.mark.parametrize("metric", ["auc", "rmse"])
def test_no_gain_that_is_not_finite_passes(metric, field, value):
    good = Gain(metric=metric, candidate=0.7, other=0.7, confidence=0.95, low=0.1, high=0.1)
    gain = dataclasses.replace(good, **{field: value})
    part = Slice(rule="plan", value="pro", num_examples=50, candidate=gain.candidate, gain=gain)
    for options in (GateOptions(), GateOptions(min_gain=-1.0)):
        for comparison in (
            Comparison(metric=metric, champion=gain),
            Comparison(metric=metric, baseline=gain, baseline_name=LINEAR),
            Comparison(metric=metric, champion=good, slices=[part]),
        ):
            checks = check_comparison(comparison, options, champion="version 3")
            assert judge(checks).verdict == "failed"
        assert is_slice_ok(part, options) is False


@pytest.mark.parametrize(
    ("label", "labels", "metric", "reason"),
    [
        (Binary("y"), np.zeros(SIZE, int), "auc", "the test split has no 'yes'"),
        (Binary("y"), np.ones(SIZE, int), "auc", "the test split has no 'no'"),
        (Binary("y"), np.zeros(SIZE, int), "pr_auc", "the test split has no 'yes'"),
        (Multilabel("y", values=("a", "b")), np.ones((SIZE, 2)), "auc", "no label is both"),
        (Regression("y"), np.full(SIZE, 2.5), "r2", "y is 2.5 in all of the test split"),
    ],
    ids=["no yes", "no no", "pr_auc", "multilabel", "r2"],
)
@pytest.mark.parametrize("rival", [CHAMPION, CONSTANT])
def test_one_class_is_not_a_pass_and_the_reason_is_said(label, labels, metric, reason, rival):
    predictions = np.zeros(SIZE) if isinstance(label, Regression) else probabilities()
    data = of_plans(predictions, labels, label=label, **{rival: predictions})
    [check] = checks_of(data, metric=metric)
    assert not check.is_ok
    assert f"{metric} is not defined: {reason}" in check.text
    assert "nan" not in check.text


@pytest.mark.parametrize("value", NUMBERS.values(), ids=NUMBERS)
def test_predictions_that_are_not_finite_are_counted_and_fail(value):
    bad = with_value(probabilities(), value)
    data = of_plans(bad, **{CHAMPION: probabilities(), CONSTANT: probabilities(strength=0)})
    [check] = check_predictions(data)
    assert not check.is_ok
    assert check.text.startswith("1 of 60 predictions of the test split are not finite numbers")
    assert "example 3's (label 'yes')" in check.text
    assert check_predictions(of_plans(probabilities())) == []


@pytest.mark.parametrize("value", NUMBERS.values(), ids=NUMBERS)
def test_a_champion_with_predictions_that_are_not_finite_is_replaced_by_a_simple_model(value):
    data = of_plans(probabilities(), **{CHAMPION: with_value(probabilities(), value)})
    found, why = without_broken_champion(data)
    assert why == "1 of 60 of its predictions are not finite numbers"
    assert CHAMPION not in found.rivals
    simple = dataclasses.replace(found, rivals={CONSTANT: probabilities(strength=0)})
    options = GateOptions()
    comparison = compare(simple, options, rules=[], missing={})
    first, second = check_comparison(comparison, options, champion="version 3", why_not=why)
    assert first.text.endswith("not finite numbers; a simple model decides")
    assert (second.name, second.is_ok) == ("baseline", True)


@pytest.mark.parametrize("value", NUMBERS.values(), ids=NUMBERS)
def test_a_simple_model_without_a_metric_does_not_hide_a_better_one(value):
    constant = probabilities(strength=0)
    broken = with_value(np.tile(0.5, (SIZE, 2)), value)
    data = of_plans(constant, **{LINEAR: broken, CONSTANT: probabilities()})
    [check] = checks_of(data, metric="brier")
    assert not check.is_ok
    assert "best constant" in check.text


def test_a_slice_with_one_class_or_few_rows_is_said():
    truth = np.where(PLANS == "basic", 0, TRUTH)
    data = of_plans(probabilities(truth), truth, **{CHAMPION: probabilities(truth)})
    settings = {"slices": "plan,plan = gold", "slice_min_examples": 10}
    options = GateOptions(**settings)
    checks = checks_of(data, **settings)
    assert checks[1].text.startswith("none of 1 slices is surely worse")
    assert checks[2].text == (
        "not judged by auc: slice plan basic (the slice has no 'yes'),"
        " plan = gold (it has fewer than 10 examples)"
    )
    assert (checks[2].is_ok, checks[2].is_sure) == (True, False)
    comparison = compare(data, options, rules=options.rules, missing={})
    assert [is_slice_ok(one, options) for one in comparison.slices] == [None, True]
