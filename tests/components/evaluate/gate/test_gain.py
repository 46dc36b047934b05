"""Metrics of draws, intervals of gains, and what they mean for the verdict."""

import math
import re
from unittest.mock import Mock

import numpy as np
import pytest

from components.evaluate.gate import gain as gains
from components.evaluate.gate.checks import check_comparison, check_size, is_slice_ok
from components.evaluate.gate.comparison import CHAMPION, Comparison, Slice, compare
from components.evaluate.gate.gain import Gain, measure_gain, measure_intervals
from components.evaluate.gate.options import CONSTANT, LINEAR, GateOptions
from tests.support.data.held_out import held_out
from trainer.metrics.directions import COMPARED
from trainer.workloads import Binary, Classes, Multilabel, Regression

pytestmark = pytest.mark.fast

SIZE = 400
RANDOM = np.random.default_rng(3)
TRUTH = RANDOM.integers(2, size=SIZE)


class Kind:
    """A workload of a label."""

    def __init__(self, label, labels=()):
        self.label, self.labels = label, labels


def two_classes(noise: float, seed: int = 1):
    """Return probabilities [n, 2], with ties, that are better with less noise."""
    scores = TRUTH + np.random.default_rng(seed).normal(scale=noise, size=SIZE)
    positive = np.round(1 / (1 + np.exp(1 - 2 * scores)), 2)
    return np.stack([1 - positive, positive], axis=1).astype(np.float32)


def three_classes():
    likely = RANDOM.random((SIZE, 3))
    return (likely / likely.sum(axis=1, keepdims=True)).astype(np.float32)


CASES = {
    "two classes": (Kind(Binary("y"), ("no", "yes")), two_classes(1.0), TRUTH),
    "classes": (
        Kind(Classes("y"), ("a", "b", "c")),
        three_classes(),
        RANDOM.integers(3, size=SIZE),
    ),
    "several": (
        Kind(Multilabel("y"), ("a", "b", "c")),
        RANDOM.random((SIZE, 3)).astype(np.float32),
        RANDOM.integers(2, size=(SIZE, 3)).astype(np.float32),
    ),
    "number": (
        Kind(Regression("y")),
        RANDOM.normal(size=SIZE).astype(np.float32),
        RANDOM.normal(size=SIZE).astype(np.float32),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_metric_of_a_draw_is_that_of_the_drawn_examples(case):
    workload, predictions, labels = CASES[case]
    draw = np.random.default_rng(7).integers(SIZE, size=SIZE)
    counts = np.bincount(draw, minlength=SIZE)
    expected = workload.label.score(predictions[draw], labels[draw], workload.labels).metrics
    names = workload.label.statistics(len(workload.labels))
    assert set(names) <= set(expected) & set(COMPARED)
    for name in names:
        found = workload.label.statistic(name, predictions, labels)(counts)
        assert found == pytest.approx(expected[name], rel=1e-6), name


def test_precision_and_calibration_of_two_classes():
    workload, predictions, labels = CASES["two classes"]
    metrics = workload.label.score(predictions, labels, workload.labels).metrics
    scores = predictions[:, 1].astype(float)
    area = before = 0.0
    for limit in sorted(set(scores), reverse=True):
        recall = labels[scores >= limit].sum() / labels.sum()
        area += (recall - before) * labels[scores >= limit].mean()
        before = recall
    assert metrics["pr_auc"] == pytest.approx(area)
    assert metrics["brier"] == pytest.approx(((scores - labels) ** 2).mean())
    exact = np.stack([1 - labels, labels], axis=1).astype(np.float32)
    assert workload.label.score(exact, labels, workload.labels).metrics["calibration_error"] == 0
    always = np.full((SIZE, 2), 0.5, np.float32)
    found = workload.label.score(always, np.ones(SIZE, int), workload.labels).metrics[
        "calibration_error"
    ]
    assert found == pytest.approx(0.5)


@pytest.mark.parametrize(("many", "num_draws"), [(SIZE, 1000), (SIZE - 1, 100)])
def test_the_interval_is_that_of_resampled_examples_and_the_same_each_time(
    monkeypatch, many, num_draws
):
    monkeypatch.setattr(gains, "MANY_EXAMPLES", many)
    counted = Mock(side_effect=lambda counts: 0.0)
    measure_gain("accuracy", counted, counted, num_examples=SIZE, confidence=0.9)
    assert counted.call_count == 2 * (num_draws + 1)
    better, worse = two_classes(0.8), two_classes(1.5, seed=2)
    models = [Binary("y").statistic("accuracy", one, TRUTH) for one in (better, worse)]
    found = measure_gain("accuracy", *models, num_examples=SIZE, confidence=0.9)
    again = measure_gain("accuracy", *models, num_examples=SIZE, confidence=0.9)
    assert found == again
    hits = [(one.argmax(axis=1) == TRUTH).astype(float) for one in (better, worse)]
    deviation = (hits[0] - hits[1]).std() / math.sqrt(SIZE)
    assert found.difference == pytest.approx(hits[0].mean() - hits[1].mean())
    assert found.low == pytest.approx(found.difference - 1.645 * deviation, abs=0.15 * deviation)
    assert found.high == pytest.approx(found.difference + 1.645 * deviation, abs=0.15 * deviation)


def test_the_interval_of_each_metric_of_one_model():
    model = two_classes(1.0)
    statistics = {name: Binary("y").statistic(name, model, TRUTH) for name in ("accuracy", "auc")}
    statistics["undefined"] = lambda counts: math.nan
    intervals = measure_intervals(statistics, num_examples=SIZE, confidence=0.9)
    assert intervals == measure_intervals(statistics, num_examples=SIZE, confidence=0.9)
    assert set(intervals) == {"accuracy", "auc"}
    hits = (model.argmax(axis=1) == TRUTH).astype(float)
    half = 1.645 * hits.std() / math.sqrt(SIZE)
    low, high = intervals["accuracy"]
    assert (low + high) / 2 == pytest.approx(hits.mean())
    assert (high - low) / 2 == pytest.approx(half, rel=0.2)


FEW, MANY = 27, 4_000
CANNOT_TELL = "27 test examples cannot tell"
LINEAR_RULE = "a first version must not be worse; --set gate.baseline=constant allows it"
CONSTANT_RULE = "every version must be better; --set gate.baseline=none allows it"


@pytest.mark.parametrize(
    ("rival", "values", "is_ok", "is_sure", "words"),
    [
        (LINEAR, (0.9259, 0.9259, 0, 0, FEW), True, False, f"equal to .*{CANNOT_TELL}"),
        (LINEAR, (0.93, 0.92, -0.01, 0.03, FEW), True, False, f"not surely better .*{CANNOT_TELL}"),
        (LINEAR, (0.93, 0.90, 0.01, 0.05, MANY), True, True, "0.0300 better than"),
        (LINEAR, (0.89, 0.93, -0.11, 0, FEW), False, False, f"{CANNOT_TELL}; {LINEAR_RULE}"),
        (LINEAR, (1.0, 1.0, 0, 0, FEW), True, True, "no model can beat it"),
        (CONSTANT, (1.0, 1.0, 0, 0, FEW), True, True, "no model can beat it"),
        (CONSTANT, (0.40, 0.33, -0.1, 0.2, FEW), True, False, CANNOT_TELL),
        (CONSTANT, (0.33, 0.33, 0, 0, MANY), False, False, CONSTANT_RULE),
        (CONSTANT, (0.32, 0.33, -0.1, 0.2, FEW), False, False, f"{CANNOT_TELL}; {CONSTANT_RULE}"),
        (CHAMPION, (0.89, 0.96, -0.19, 0, FEW), True, False, f"not surely worse .*{CANNOT_TELL}"),
        (CHAMPION, (0.96, 0.96, 0, 0, FEW), True, False, f"not surely better .*{CANNOT_TELL}"),
        (CHAMPION, (0.97, 0.95, 0.01, 0.03, MANY), True, True, "surely better by 0.0100 to 0.0300"),
        (CHAMPION, (0.95, 0.951, -0.002, -1e-9, MANY), False, False, "surely worse by 1·10⁻⁹ to"),
        (
            CHAMPION,
            (0.9907, 0.9934, -0.0044, -0.0011, MANY),
            False,
            False,
            r"is 0.0027 worse than version 3's 0.9934, surely worse by 0.0011 to 0.0044 \(95 % int",
        ),
        (CHAMPION, (math.nan, 0.95, 0, 0, MANY), False, True, "accuracy is not defined"),
        (CHAMPION, (0.96, 0.95, math.nan, 0.1, MANY), False, True, "accuracy is not defined"),
    ],
)
def test_the_rule_for_a_rival(rival, values, is_ok, is_sure, words):
    gains = {"baseline": gain_of(*values), "baseline_name": rival}
    if rival == CHAMPION:
        gains = {"champion": gain_of(*values)}
    check = only_check(**gains)
    assert (check.is_ok, check.is_sure) == (is_ok, is_sure)
    assert re.search(words, check.text)


def gain_of(candidate, other, low, high, num_examples) -> Gain:
    return Gain(
        metric="accuracy",
        candidate=candidate,
        other=other,
        confidence=0.95,
        low=low,
        high=high,
        num_examples=num_examples,
    )


def only_check(options=None, **gains):
    """Return the only check of a comparison by accuracy."""
    comparison = Comparison(metric="accuracy", **gains)
    [check] = check_comparison(comparison, options or GateOptions(), champion="version 3")
    return check


@pytest.mark.parametrize(
    ("min_gain", "values", "is_ok", "words"),
    [
        (0.0, (0.97, 0.95, 0.01, 0.03), True, "surely better"),
        (0.0, (0.96, 0.96, 0, 0), True, ""),
        (0.001, (0.96, 0.96, 0, 0), False, ""),
        (0.0, (0.95, 0.951, -0.002, 0.001), False, ""),
        (-0.005, (0.9907, 0.9934, -0.0044, -0.0011), True, "gate.min_gain=-0.005 allows it"),
        (
            -0.004,
            (0.9907, 0.9934, -0.0044, -0.0011),
            False,
            r"surely worse by 0.0011 to 0.0044 \(95 % interval\); its lower end must be .* -0.004$",
        ),
    ],
)
def test_who_accepts_a_loss_says_so_and_the_reason_repeats_it(min_gain, values, is_ok, words):
    gain = gain_of(*values, MANY)
    check = only_check(GateOptions(min_gain=min_gain), champion=gain)
    assert check.is_ok == is_ok
    assert check.is_sure == (gain.low > 0)
    assert re.search(words, check.text)


def test_an_interval_has_what_was_measured_in_it():
    counts = iter([0.5, 0.6, *[0.4, 0.6] * 1000])
    gain = measure_gain(
        "accuracy", lambda _: 0.7, lambda _: next(counts), num_examples=9, confidence=0.95
    )
    assert gain.low <= gain.difference <= gain.high


@pytest.mark.parametrize(
    ("ends", "difference", "is_ok", "words"),
    [
        ((-0.2, -0.04), -0.12, False, "slice firm b (500 examples): accuracy .* surely worse by"),
        ((-0.2, -0.06), -0.13, False, "surely worse by 0.0600 to 0.2000 (99 % interval)"),
        ((-0.04, -0.02), -0.03, True, "by more than 0.05 of it; surely worse by less: firm b"),
        ((-0.2, 0.04), -0.08, True, "surely worse than version 3's, by more than 0.05 of it"),
        ((0.01, 0.03), 0.02, True, "none of 1 slices"),
        ((math.nan, 0.03), 0.02, False, ""),
    ],
)
def test_a_sure_loss_of_a_slice_is_not_hidden_by_the_friendly_end(ends, difference, is_ok, words):
    other = {"metric": "accuracy", "other": 0.9, "confidence": 0.99, "num_examples": 500}
    gain = Gain(**other, candidate=0.9 + difference, low=ends[0], high=ends[1])
    equal = Gain(**other, candidate=0.9, low=0, high=0)
    part = Slice(rule="firm", value="b", num_examples=500, candidate=gain.candidate, gain=gain)
    comparison = Comparison(metric="accuracy", champion=equal, slices=[part])
    assert is_slice_ok(part, GateOptions()) is is_ok
    _, check = check_comparison(comparison, GateOptions(), champion="version 3")
    assert check.is_ok is is_ok
    assert re.search(re.sub("[()]", ".", words), check.text)
    assert check.is_sure is ("by less" not in words)


def test_a_model_that_equals_a_linear_one_must_still_beat_the_constant():
    shares = np.tile([0.5, 0.5], (SIZE, 1))
    data = held_out(TRUTH, shares, rivals={LINEAR: shares, CONSTANT: shares})
    found = compare(data, GateOptions(), rules=[], missing={})
    assert found.baseline_name == CONSTANT


def test_a_slice_may_not_get_worse():
    champion = two_classes(0.7)
    firms = np.array(["a", "b", "", "tiny"], object)[np.r_[np.arange(SIZE - 3) % 3, [3, 3, 3]]]
    candidate = champion.copy()
    candidate[firms == "b"] = candidate[firms == "b"][:, ::-1]
    options = GateOptions(slices="firm,missing(firm)", metric="accuracy")
    worse, equal = (
        compare(
            held_out(TRUTH, predictions, columns={"firm": firms}, rivals={CHAMPION: champion}),
            options,
            rules=options.rules,
            missing={},
        )
        for predictions in (candidate, champion)
    )
    named = {"options": options, "champion": "version 3"}
    _, *checks = check_comparison(worse, **named)
    assert [(check.name, check.is_ok) for check in checks] == [("slice firm b", False)]
    assert [(one.rule, one.value) for one in worse.slices] == [
        ("firm", "a"),
        ("firm", "b"),
        ("missing(firm)", ""),
    ]
    checks = check_comparison(equal, **named)
    assert [(check.name, check.is_ok) for check in checks] == [("champion", True), ("slices", True)]


def test_a_gain_of_an_error_is_its_decrease():
    gain = Gain(metric="rmse", candidate=2.0, other=2.5, confidence=0.95)
    assert gain.difference == 0.5
    assert gain.to_json()["difference"] == 0.5


def test_the_size_of_a_model_has_a_limit(tmp_path):
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "data").write_bytes(bytes(2_000_000))
    (tmp_path / "golden.json").write_bytes(bytes(9_000_000))
    (tmp_path / "golden.tmp").write_bytes(bytes(9_000_000))  # of a step that was killed
    assert check_size(str(tmp_path), GateOptions()) == []
    [small] = check_size(str(tmp_path), GateOptions(max_model_mb=2.5))
    [large] = check_size(str(tmp_path), GateOptions(max_model_mb=1.5))
    assert (small.is_ok, large.is_ok, large.value) == (True, False, 2.0)
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "statistics.json").write_bytes(bytes(1_000_000))
    [with_asset] = check_size(str(tmp_path), GateOptions(max_model_mb=2.5))
    assert with_asset.value == 3.0


@pytest.mark.parametrize(("low", "is_ok"), [(-0.1, False), (0.01, True)], ids=["luck", "sure"])
def test_a_version_that_replaces_another_must_surely_beat_the_constant(low, is_ok):
    comparison = Comparison(
        metric="accuracy",
        champion=gain_of(0.40, 0.30, 0.05, 0.15, FEW),
        baseline=gain_of(0.40, 0.33, low, 0.2, FEW),
        baseline_name=CONSTANT,
    )
    champion, baseline = check_comparison(comparison, GateOptions(), champion="version 3")
    assert champion.is_ok
    assert baseline.is_ok == is_ok
    assert ("a version that replaces another must surely be better" in baseline.text) != is_ok
