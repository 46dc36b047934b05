"""Differences between two runs."""

import dataclasses
import re

import numpy as np
import pytest

from components.run_result.summary import summarize
from pipelines.resources.table import table_lines
from pipelines.runs.differences import (
    Difference,
    compare,
    difference_row,
    differences_json,
    judged_table,
)
from pipelines.runs.gains import NO_ANSWERS, OTHER_EXAMPLES, measure_gains
from tests.support.data.run_records import LONG_NAME, promoted
from trainer.workloads.declarations.labels import Binary, Regression

pytestmark = pytest.mark.fast


def test_two_runs_differ_in_settings_data_code_and_metrics():
    first = summarize(promoted())
    second = dataclasses.replace(
        summarize(promoted(0.99, train='{"epochs": 7}')), code_digest="ba9876543210"
    )
    found = compare(first, second)

    assert [(one.name, one.first, one.second) for one in found] == [
        ("code_digest", "0123456789ab", "ba9876543210"),
        ("train.batch_size", 128, None),
        ("train.epochs", 5, 7),
        ("accuracy", 0.9871, 0.99),
    ]
    rows = [difference_row(one) for one in found]
    assert rows[2] == ("train.epochs", "5", "7", "+2")
    assert rows[3] == ("test accuracy", "0.9871", "0.99", "+0.0029")
    assert rows[1] == ("train.batch_size", "128", "-", "")
    assert compare(first, first) == []
    assert len(compare(first, first, has_all=True)) > len(found)
    content = differences_json(first, second, found, {})
    assert content["settings"]["train.epochs"] == {"a": 5, "b": 7}
    assert content["a"] == LONG_NAME
    assert all(len(line) <= 80 for line in table_lines(judged_table(found, {})))


def test_numbers_have_no_exponents():
    facts = [
        Difference(kind="metrics", name="loss", first=6904847950.0, second=4440945863.0),
        Difference(kind="settings", name="train.learning_rate", first=0.00002, second=0.00001),
    ]
    assert [difference_row(fact) for fact in facts] == [
        ("test loss", "6,904,850,000", "4,440,950,000", "-2,464,000,000"),
        ("train.learning_rate", "0.00002", "0.00001", "-0.00001"),
    ]


def classes(scores: list[float], **facts: object) -> dict:
    """Return the evaluation of a model of two classes that gives these scores."""
    predictions = np.stack([1 - np.array(scores), scores], axis=1)
    labels = np.arange(len(scores)) % 2
    answers = {"labels": labels.tolist(), "predicted": predictions.argmax(1).tolist()}
    return {
        "label_kind": "Binary",
        "labels": ["no", "yes"],
        "metrics": Binary("y").measure(predictions, labels),
        "answers": {**answers, "scores": scores},
        **facts,
    }


def numbers(noise: float, seed: int) -> dict:
    """Return the evaluation of a model of a number with errors of this size."""
    labels = np.linspace(0, 10, 400)
    predicted = labels + noise * np.random.default_rng(seed).normal(size=400)
    return {
        "label_kind": "Regression",
        "labels": [],
        "metrics": Regression("y").measure(predicted, labels),
        "answers": {"labels": labels.tolist(), "predicted": predicted.tolist()},
    }


def judgements(first: dict, second: dict) -> dict[str, str]:
    before, after = first["metrics"], second["metrics"]
    facts = [
        Difference(kind="metrics", name=name, first=before[name], second=after[name])
        for name in before
    ]
    rows = judged_table(facts, measure_gains(first, second).by_metric).rows
    return {name: row[-1] for name, row in zip(before, rows, strict=True)}


def test_a_model_of_a_number_is_better_or_worse_with_an_interval():
    first, second = numbers(2.0, seed=1), numbers(1.0, seed=2)
    better, worse = judgements(first, second), judgements(second, first)

    assert re.fullmatch(r"surely better by 0\.\d+ to [\d.]+ \(95 % interval\)", better["rmse"])
    assert all(text.startswith("surely better by") for text in better.values())
    assert all(text.startswith("surely worse by") for text in worse.values())
    assert set(better) >= {"rmse", "mae", "r2"}
    assert "only B is nearer to the label on 2" in measure_gains(first, second).words


def test_what_chance_may_have_decided_is_not_sure():
    doubtful = judgements(numbers(1.0, seed=1), numbers(1.0, seed=3))
    assert re.fullmatch(
        r"not surely (better|worse) \(95 % interval -\S+ to \+\S+\)", doubtful["rmse"]
    )


def test_a_model_of_classes_is_compared_by_example_and_by_every_metric():
    good = [0.1, 0.9] * 100
    bad = [0.1, 0.9] * 80 + [0.9, 0.2] * 20
    found = measure_gains(classes(good), classes(bad))

    assert found.words == "Of 200 test examples, only B is right on 0, and only A on 40."
    assert found.by_metric["accuracy"].difference == pytest.approx(-0.2)
    assert found.by_metric["accuracy"].high < 0
    assert set(found.by_metric) >= {"auc", "loss", "brier", "f1"}


def test_a_metric_that_keras_computes_by_other_rules_has_no_interval():
    first = classes([0.1, 0.9] * 50)
    first["metrics"]["loss"] = 17.0
    found = measure_gains(first, classes([0.2, 0.9] * 50))
    assert "loss" not in found.by_metric
    assert "brier" in found.by_metric


def test_a_cost_and_unknown_metrics_are_not_judged_without_their_direction():
    facts = [Difference(kind="metrics", name=name, first=1.0, second=2.0) for name in ("cost", "x")]
    assert [row[-1] for row in judged_table(facts, {}).rows] == ["worse", ""]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({}, NO_ANSWERS),
        (classes([0.1, 0.9, 0.2]), OTHER_EXAMPLES),
        (classes([0.1, 0.9], labels=["a", "b"]), OTHER_EXAMPLES),
    ],
    ids=["old", "other rows", "other classes"],
)
def test_models_of_other_examples_are_not_compared(second, words):
    found = measure_gains(classes([0.1, 0.9]), second)
    assert (found.words, found.by_metric) == (words, {})
