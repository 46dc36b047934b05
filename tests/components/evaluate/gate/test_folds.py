"""Comparison of recipes by folds."""

import json

import numpy as np
import pytest

from components.evaluate.gate.checks import check_comparison
from components.evaluate.gate.comparison import CHAMPION, Comparison, compare
from components.evaluate.gate.folds import compare_folds, to_companion
from components.evaluate.gate.gain import Gain
from components.evaluate.gate.options import CONSTANT, LINEAR, GateOptions
from components.evaluate.held_out import HeldOut
from components.model_version.companions import FOLDS_FILE
from tests.support.data.held_out import held_out
from trainer.workloads import Classes

LABEL = Classes("y", values=("a", "b"))
OPTIONS = GateOptions(metric="accuracy")
NO_GAIN = {"candidate": 1.0, "other": 1.0, "confidence": 0.95}


def of_classes(labels, predicted, **more) -> HeldOut:
    choices = np.eye(2, dtype=np.float32)[predicted]
    return held_out(labels, choices, label=LABEL, names=("a", "b"), **more)


@pytest.fixture
def on_test():
    """The comparison on a test split of four rows, where the champion is right in one."""
    rivals = {CHAMPION: np.eye(2)[[1, 0, 0, 0]]}
    test = of_classes([0, 1, 0, 1], [0, 1, 0, 1], rivals=rivals)
    return compare(test, OPTIONS, rules=(), missing={})


def judged(labels, predicted, hashes, **more) -> HeldOut:
    rivals = {CONSTANT: np.full((len(labels), 2), 0.5)}
    return of_classes(labels, predicted, hashes=hashes, num_folds=5, rivals=rivals, **more)


def compared(ours, on_test, folder):
    return compare_folds(ours, on_test, OPTIONS, champion_uri=str(folder), rules=(), missing={})


def test_a_champion_is_compared_by_the_rows_that_both_have_predicted(tmp_path, on_test):
    # Two rows are equal, so they share a hash; the champion did not have the row `new`.
    earlier = judged([0, 1, 0, 1, 1, 0], [0, 1, 1, 1, 0, 0], ["r", "s", "s", "t", "u", "gone"])
    (tmp_path / FOLDS_FILE).write_text(json.dumps(to_companion(earlier)))
    ours = judged([0, 1, 0, 1, 1, 0], [0, 1, 0, 1, 1, 0], ["r", "s", "s", "t", "u", "new"])

    comparison = compared(ours, on_test, tmp_path)

    assert comparison.champion.num_examples == 5
    assert comparison.champion.other == pytest.approx(3 / 5)
    assert comparison.champion.candidate == 1
    assert comparison.baseline.num_examples == 6
    texts = " ".join(
        check.text for check in check_comparison(comparison, OPTIONS, champion="version 1")
    )
    assert "accuracy 1.0000 by 5 folds (5 rows) is 0.4000 better than version 1's 0.6000" in texts
    assert "accuracy 1.0000 by 5 folds (6 rows) is" in texts


@pytest.mark.parametrize("is_older", [False, True])
def test_a_champion_of_many_classes_is_compared_by_names(tmp_path, is_older):
    def predicting(names, labels, predicted) -> HeldOut:
        numbers = {name: number for number, name in enumerate(names)}
        truth = np.array([numbers[name] for name in labels])
        dense = np.eye(len(names), dtype=np.float32)[[numbers[name] for name in predicted]]
        choices = dense if is_older else label.summarized(dense, truth)
        hashed = {"hashes": list("rst"), "num_folds": 5, "rivals": {}}
        return held_out(truth, choices, label=label, names=names, **hashed)

    label = Classes("y", values=("a", "b", "c", "d"))
    earlier = predicting(("c", "b", "a"), "abc", "acc")
    (tmp_path / FOLDS_FILE).write_text(json.dumps(to_companion(earlier)))
    ours = predicting(("a", "b", "d", "c"), "abc", "abd")
    on_test = Comparison(metric="accuracy", champion=Gain(metric="accuracy", **NO_GAIN))

    comparison = compared(ours, on_test, tmp_path)

    assert comparison.champion.num_examples == 3
    assert comparison.champion.other == pytest.approx(2 / 3)


@pytest.mark.parametrize("content", [None, "{", '{"names": ["a", "b"], "predictions": {}}'])
def test_a_champion_without_folds_of_these_rows_is_compared_on_the_test_split(
    tmp_path, on_test, content
):
    if content:
        (tmp_path / FOLDS_FILE).write_text(content)
    ours = judged([0, 1, 0, 1, 1], [0, 1, 0, 1, 1], list("rstuv"))

    comparison = compared(ours, on_test, tmp_path)

    assert comparison.champion.num_examples == 4
    [text, _] = [
        check.text for check in check_comparison(comparison, OPTIONS, champion="version 1")
    ]
    assert "on the test split (4 rows, since the default version was not judged" in text


@pytest.mark.parametrize(
    ("num_folds", "num_worse", "is_ok"), [(5, 1, True), (0, 1, False), (5, 20, False)]
)
def test_by_folds_a_first_version_is_worse_than_a_linear_model_only_if_chance_is_not_to_blame(
    num_folds, num_worse, is_ok
):
    labels = np.arange(60) % 2
    predicted = labels.copy()
    predicted[:num_worse] = 1 - predicted[:num_worse]
    rows = of_classes(labels, predicted, num_folds=num_folds, rivals={LINEAR: np.eye(2)[labels]})
    comparison = compare(rows, OPTIONS, rules=(), missing={})

    [check] = check_comparison(comparison, OPTIONS, champion="")

    assert (check.is_ok, check.is_sure) == (is_ok, False)
    assert ("first version must not be worse" in check.text) is not is_ok
