"""The line beside the net of a table: how it is fitted, and what it says outside its range."""

import keras
import numpy as np
import pytest

from tests.support.data.encoded_tables import adapted
from trainer.metrics.decision import DecisionRule
from trainer.metrics.linear import fit_linear
from trainer.serving.export import export_model, load_predictor
from trainer.training.results.evaluator import decide_share
from trainer.workloads import Binary, Category, Classes, Multilabel, Number, Regression, Table
from trainer.workloads.encoding.columns import TableFacts, linear_columns

AGES = np.linspace(20, 40, 200)
PLANS = np.resize(["a", "b", "c"], 200)


def served(tmp_path, label, labels, net_share):
    """Return a table with an untrained net, and the predictor of it and its line."""
    features = [Number("age"), Category("plan")]
    rows = [{"age": float(age), "plan": str(plan)} for age, plan in zip(AGES, PLANS, strict=True)]
    table, examples = adapted(Table(features, label=label, name="t"), rows)
    columns, _ = table.parse(examples)
    line = table.fit_line(columns, labels)
    decision = DecisionRule(net_share=net_share)
    keras.utils.set_random_seed(1)
    export_model(table.build_model(), table, str(tmp_path), decision=decision, line=line)
    return table, load_predictor(str(tmp_path))


def logits(table, predictor, *, age):
    features = {"age": np.float32(age), "plan": np.array([b"b"] * len(age))}
    return np.asarray(table.label.logits(predictor.predict_values(features)))


WAVES = 15 * np.sin(7 * AGES)


@pytest.mark.parametrize(
    ("label", "labels"),
    [
        (Regression("y"), np.float32(3 * AGES + WAVES)),
        (Binary("y"), (AGES + WAVES > 30).astype(int)),
        (Classes("y", values=(0, 1, 2)), np.digitize(AGES + WAVES, [27, 33])),
        (Multilabel("y", values=("m", "n")), np.float32([AGES + WAVES > 30, AGES < WAVES + 25]).T),
    ],
    ids=["Regression", "Binary", "Classes", "Multilabel"],
)
def test_outside_its_range_a_model_continues_as_its_line(tmp_path, label, labels):
    table, predictor = served(tmp_path, label, labels, 0.6)
    values = logits(table, predictor, age=[18, 20, 30, 40, 41, 43])
    if label.has_classes:
        values = values - values.mean(axis=1, keepdims=True)
    below, inside, further, beyond, far = np.diff(values, axis=0)
    assert np.abs(beyond).max() > 0.01
    np.testing.assert_allclose(far, 2 * beyond, rtol=0.01, atol=1e-4)
    np.testing.assert_allclose(far, below, rtol=0.01, atol=1e-4)
    assert np.abs(inside - further).max() > 1e-3, "a net is no line"


def test_a_line_predicts_what_is_one(tmp_path):
    prices = (3 * AGES + 5 * (PLANS == "b")).astype(np.float32)
    table, predictor = served(tmp_path, Regression("y"), prices, 0.0)
    np.testing.assert_allclose(logits(table, predictor, age=[20, 80])[:, 0], [65, 245], rtol=0.001)


def test_a_penalty_is_chosen_by_what_is_left_out():
    random = np.random.default_rng(3)
    inputs = random.normal(size=(60, 40))
    noise, line = random.normal(size=(60, 1)) + 100, inputs[:, :1] * 4 + 100
    *weights, constant = fit_linear(inputs, noise, lambda values: values, bound=1.0)
    assert np.abs(weights).max() < 0.1, "nothing is to be learnt"
    assert constant == pytest.approx(noise.mean(), abs=0.05), "which has no penalty"
    *weights, constant = fit_linear(inputs, line, lambda values: values, bound=1.0)
    np.testing.assert_allclose(weights, 4 * np.eye(40)[:, :1], atol=0.05)


def test_rows_without_weight_do_not_count():
    inputs = np.random.default_rng(3).normal(size=(80, 3))
    weights, wrong = np.resize([2, 0], 80), np.resize([0, 100], 80)
    truth = inputs @ [[1], [2], [3]] + wrong[:, None]
    *fitted, constant = fit_linear(inputs, truth, lambda values: values, bound=1.0, weights=weights)
    np.testing.assert_allclose([*fitted, constant], [[1], [2], [3], [0]], atol=1e-3)


def test_categories_of_too_many_values_are_left_out():
    columns = [
        *Category("few", values=("a", "b", "c")).columns(TableFacts()),
        *Category("many", hashed=900).columns(TableFacts()),
        *Category("most", hashed=5000).columns(TableFacts()),
    ]
    assert [column.name for column in linear_columns(columns)] == ["few", "many"]


@pytest.mark.parametrize(
    ("right", "size", "expected"),
    [(1.0, 200, 1.0), (0.5, 200, 0.5), (0.0, 200, 0.0), (0.02, 5, 0.0)],
)
def test_the_net_gets_the_share_that_has_the_least_loss(right, size, expected):
    random = np.random.default_rng(1)
    line, added = random.normal(size=(2, size, 1))
    truth = line + right * added + random.normal(scale=0.2, size=(size, 1))
    decision = decide_share(Regression("y"), line, added, np.float32(truth[:, 0]))
    assert decision.net_share == pytest.approx(expected, abs=0.051)
    assert decision.loss_before <= decision.line_loss
