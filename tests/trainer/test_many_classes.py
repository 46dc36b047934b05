"""Metrics of thousands of classes: from a few numbers of each example, in results of few bytes."""

import json
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from components.evaluate.held_out import predict_table
from trainer.metrics.class_metrics import CHOICE, MAX_PAIRS, find_not_finite
from trainer.metrics.decision import MAX_EXAMPLES, MAX_VALUES, sampled
from trainer.workloads import Classes

pytestmark = pytest.mark.fast

NUM_EXAMPLES = 300
RANDOM = np.random.default_rng(5)
PROBABILITIES = RANDOM.dirichlet(np.full(4, 0.5), NUM_EXAMPLES).astype(np.float32)
LABELS = RANDOM.integers(4, size=NUM_EXAMPLES)
LABEL = Classes("y", values=("a", "b", "c", "d"))


def test_batches_of_choices_have_the_metrics_of_all_probabilities():
    pieces = [
        LABEL.summarized(PROBABILITIES[part], LABELS[part])
        for part in np.array_split(np.arange(NUM_EXAMPLES), 7)
    ]
    choices = np.concatenate(pieces)
    predicted = PROBABILITIES.argmax(axis=1)
    matrix = np.zeros((4, 4), int)
    np.add.at(matrix, (LABELS, predicted), 1)
    hits, both = matrix.diagonal(), matrix.sum(axis=0) + matrix.sum(axis=1)
    likely = PROBABILITIES[np.arange(NUM_EXAMPLES), LABELS]
    expected = {
        "accuracy": np.mean(predicted == LABELS),
        "loss": -np.log(np.maximum(likely, 1e-12)).mean(),
        "f1": np.mean(2 * hits / both),
    }
    evaluation = LABEL.score(choices, LABELS, LABEL.values)
    assert evaluation.metrics == pytest.approx(expected)
    assert evaluation.confusion == matrix.tolist()
    assert evaluation.by_class == np.stack([matrix.sum(1), matrix.sum(0), hits], 1).tolist()
    assert sum(count for _, _, count in evaluation.pairs) == matrix.sum() - hits.sum()
    every = np.ones(NUM_EXAMPLES, np.uint8)
    for name, value in expected.items():
        assert LABEL.statistic(name, choices, LABELS)(every) == pytest.approx(value)
    wrong = np.where(predicted == LABELS, 0, PROBABILITIES.max(axis=1))
    np.testing.assert_array_equal(LABEL.error_sizes(choices, LABELS), wrong)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_choice_tells_that_a_probability_is_not_finite(value):
    bad = PROBABILITIES.copy()
    bad[[3, 8], [1, 2]] = value
    assert find_not_finite(LABEL.summarized(bad, LABELS)).tolist() == [3, 8]


def test_a_table_is_predicted_in_parts():
    workload = SimpleNamespace(label=LABEL, num_rows_at_once=100)
    sizes = []

    def predict(features):
        sizes.append(len(features["row"]))
        return PROBABILITIES[features["row"]]

    found = predict_table(predict, {"row": np.arange(NUM_EXAMPLES)}, LABELS, workload)
    np.testing.assert_array_equal(found, LABEL.summarized(PROBABILITIES, LABELS))
    assert sizes == [100] * 3


def test_the_evaluation_of_ten_thousand_classes_has_few_bytes():
    num_classes, num_examples = 10_000, 100_000
    labels = RANDOM.integers(num_classes, size=num_examples)
    choices = np.zeros(num_examples, CHOICE)
    choices["predicted"] = (labels + RANDOM.integers(3, size=num_examples)) % num_classes
    names = [f"class {number}" for number in range(num_classes)]
    evaluation = LABEL.score(choices, labels, names)
    assert len(json.dumps(asdict(evaluation))) < 1_000_000
    assert evaluation.confusion == []
    assert len(evaluation.pairs) == MAX_PAIRS
    counts = [count for _, _, count in evaluation.pairs]
    assert counts == sorted(counts, reverse=True)
    true, predicted, count = evaluation.pairs[0]
    assert count == ((labels == true) & (choices["predicted"] == predicted)).sum()


@pytest.mark.parametrize(
    ("num_classes", "most"), [(2, MAX_EXAMPLES), (10_000, MAX_VALUES // 10_000)]
)
def test_the_sample_that_decides_has_every_nth_example(num_classes, most):
    size, num_examples = 70, 3 * most
    numbers = np.arange(num_examples)
    batches = (
        (np.tile(part[:, np.newaxis], num_classes), part)
        for part in np.split(numbers, range(size, num_examples, size))
    )
    likely, kept = sampled(batches)
    np.testing.assert_array_equal(kept, numbers[::4])
    np.testing.assert_array_equal(likely[:, -1], kept)
