"""Calibration and threshold: the values that eval examples with known probabilities lead to."""

import numpy as np
import pytest

from trainer.metrics.decision import DecisionRule
from trainer.workloads import Binary, Classes

SIZE = 4000


def drawn(temperature, *, seed=1):
    """Return probabilities of a model that is too sure by a factor, and the true classes."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=SIZE) * 2 - 1
    true = 1 / (1 + np.exp(-logits))
    shown = 1 / (1 + np.exp(-logits * temperature))
    return np.stack([1 - shown, shown], axis=1), (random.random(SIZE) < true).astype(int)


@pytest.mark.parametrize("temperature", [0.4, 3.0], ids=["too-unsure", "too-sure"])
def test_the_temperature_undoes_a_wrong_confidence(temperature):
    decision = Classes("y", values=(0, 1)).decide(*drawn(temperature))
    assert decision.temperature == pytest.approx(temperature, rel=0.1)
    assert decision.loss_after < decision.loss_before


def test_true_probabilities_stay():
    assert Binary("y").decide(*drawn(1.0)).temperature == 1


def test_few_examples_cannot_tell():
    likely, labels = drawn(3.0)
    assert Binary("y").decide(likely[:60], labels[:60]).temperature == 1


def test_a_declared_threshold_is_kept():
    assert Binary("y", threshold=0.3).decide(*drawn(1.0)).threshold == 0.3


def brute_force(value):
    """Return the largest value of a function of the predictions, over all thresholds."""
    likely, labels = drawn(1.0)
    return max(value(likely[:, 1] >= limit, labels) for limit in np.unique(likely[:, 1]))


def f1(predicted, labels):
    return 2 * (predicted & (labels == 1)).sum() / (predicted.sum() + labels.sum())


def minus_cost(predicted, labels):
    return -(10 * (~predicted & (labels == 1)).sum() + (predicted & (labels == 0)).sum()) / SIZE


@pytest.mark.parametrize(
    ("label", "value"),
    [
        (Binary("y", threshold="f1"), f1),
        (Binary("y", cost={"missed": 10, "false_alarm": 1}), minus_cost),
    ],
    ids=["f1", "cost"],
)
def test_the_chosen_threshold_is_the_best_one(label, value):
    likely, labels = drawn(1.0)
    threshold = label.decide(likely, labels).threshold
    assert value(likely[:, 1] >= threshold, labels) == pytest.approx(brute_force(value))


def test_false_alarms_that_cost_too_much_are_never_raised():
    likely, labels = drawn(1.0)
    labels[likely[:, 1].argmax()] = 0
    label = Binary("y", cost={"missed": 1, "false_alarm": 100_000})
    assert not (likely[:, 1] >= label.decide(likely, labels).threshold).any()


def test_one_class_keeps_the_threshold_and_says_so(caplog):
    likely, _ = drawn(1.0)
    label = Binary("y", threshold="f1")
    assert label.decide(likely, np.zeros(SIZE, int)).threshold == DecisionRule().threshold
    assert "all examples of the eval split are of one class" in caplog.text


def test_metrics_of_the_predicted_class_follow_the_threshold():
    likely, labels = drawn(1.0)
    label = Binary("y", threshold=0.2, cost={"missed": 10, "false_alarm": 1})
    predicted = label.predicted(likely)
    metrics = label.measure(likely, labels)
    assert predicted.tolist() == (likely[:, 1] >= 0.2).astype(int).tolist()
    assert metrics["recall"] == pytest.approx(predicted[labels == 1].mean())
    assert metrics["precision"] == pytest.approx(labels[predicted == 1].mean())
    assert metrics["f1"] == pytest.approx(f1(predicted == 1, labels))
    assert metrics["cost"] == pytest.approx(-minus_cost(predicted == 1, labels))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"threshold": 1.5}, "threshold of the label 'y' is 1.5"),
        ({"threshold": "best"}, "'best'"),
        ({"cost": {"missed": 1}}, "two numbers above 0"),
        ({"cost": {"missed": 1, "false_alarm": 0}}, "two numbers above 0"),
        ({"cost": {"missed": 1, "false_alarm": 1}, "threshold": "f1"}, "give one of them"),
    ],
)
def test_a_bad_threshold_is_refused_by_name(options, text):
    with pytest.raises(ValueError, match=text):
        Binary("y", **options)
