"""Losses and metrics of compiled models: sums over parts, weights, several outputs, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, losses, metrics

from tests.trainer.support.tiny import NUM_INPUTS, Tiny, make_examples
from trainer.errors import ConfigError
from trainer.training.model.flat_model import FlatModel
from trainer.training.model.objective import Objective
from trainer.training.results.evaluator import EvalStep
from trainer.workloads.base import Workload
from trainer.workloads.declarations.labels import Binary, Classes, Multilabel, Regression

THREE, FLAGS = Classes(values=("a", "b", "c")), Multilabel(values=("a", "b", "c"))
SPARSE = losses.SparseCategoricalCrossentropy(from_logits=True)
COUNT = 12


def make_model(units=3, *, names=()):
    keras.utils.set_random_seed(3)
    inputs = keras.Input((NUM_INPUTS,))
    hidden = layers.Dense(4, "tanh", kernel_regularizer="l2")(inputs)
    if names:
        return keras.Model(inputs, {name: layers.Dense(units)(hidden) for name in names})
    return keras.Model(inputs, layers.Dense(units)(hidden))


def make_objective(label, model, *, weighted=False, num_parts=1):
    objective = Objective(Tiny(label, weighted=weighted), FlatModel(model), batch_size=COUNT)
    objective.check_parts(num_parts=num_parts)
    return objective


def contribute(objective, label, model, *, rows=slice(None), weighted=False):
    """Return the (loss, sums) of some of COUNT examples."""
    inputs, labels = make_examples(label, count=COUNT)
    inputs, labels = inputs[rows], labels[rows]
    flat = FlatModel(model)
    call = flat(flat.read_weights(), flat.read_state(), inputs, seed=tf.constant([1, 2]))
    weights = Tiny(label, weighted=weighted).example_weights({"x": inputs}, labels)
    share = len(labels) / COUNT
    return objective.contribute(call, tf.constant(labels), weights, share=share, size=COUNT)


def measure(label, model, *, weighted=False, num_unlabelled=0):
    workload, flat = Tiny(label, weighted=weighted), FlatModel(model)
    inputs, labels = make_examples(label, count=COUNT)
    objective = Objective(workload, flat, batch_size=COUNT)
    tables = [({"x": tf.constant(inputs)}, tf.constant(labels))]
    if num_unlabelled:
        missing = np.nan if isinstance(label, Regression) else -1
        more = np.full(num_unlabelled, missing, labels.dtype)
        others = {"x": tf.ones([num_unlabelled, NUM_INPUTS])}
        tables.append((others, tf.constant(more)))
        whole = {"x": tf.concat([others["x"], inputs[:2]], 0)}
        tables = [(whole, tf.concat([more, labels[:2]], 0)), *tables[1:]]
        tables.append(({"x": tf.constant(inputs[2:])}, tf.constant(labels[2:])))
    reports = []
    step = EvalStep(
        workload, flat, objective, tables, report_progress=lambda: reports.append(len(reports))
    )
    measured = step.measure(flat.read_weights(), flat.read_state())
    assert len(reports) == len(tables) + 1, "each table is progress"
    return measured


class LargestError(metrics.Metric):
    """The largest error so far, which is no sum over examples."""

    def __init__(self):
        super().__init__(name="largest")
        self.value = self.add_variable((), "zeros", name="value")

    def update_state(self, truth, predicted, sample_weight=None):
        del sample_weight
        error = keras.ops.max(keras.ops.abs(truth - predicted))
        self.value.assign(keras.ops.maximum(self.value, error))

    def result(self):
        return self.value


@pytest.mark.parametrize(("reduction", "weighted"), [("sum", False), ("sum_over_batch_size", True)])
def test_the_contributions_of_unequal_parts_add_up_to_that_of_the_batch(reduction, weighted):
    model = make_model()
    loss = losses.CategoricalCrossentropy(from_logits=True, reduction=reduction)
    auc = metrics.AUC(multi_label=True, num_labels=3, from_logits=True)
    model.compile("adam", loss, metrics=["accuracy", auc], weighted_metrics=["mae"])
    objective = make_objective(THREE, model, weighted=weighted, num_parts=3)
    parts = [slice(5), slice(5, 6), slice(6, None)]
    whole, *some = (
        contribute(objective, THREE, model, rows=rows, weighted=weighted)
        for rows in [slice(None), *parts]
    )
    np.testing.assert_allclose(sum(loss for loss, _ in some), whole[0], rtol=1e-5)
    total = np.sum([sums for _, sums in some], axis=0)
    np.testing.assert_allclose(total, whole[1], rtol=1e-5)
    assert objective.num_sums == len(total) > 1000
    inputs, labels = make_examples(THREE, count=COUNT)
    weights = 1 + np.abs(inputs[:, 0]) if weighted else None
    expected = model.evaluate(
        inputs, np.eye(3)[labels], sample_weight=weights, verbose=0, return_dict=True
    )
    measured = objective.metrics(total, num_examples=COUNT)
    assert measured == pytest.approx(expected, rel=1e-4)
    evaluated = measure(THREE, model, weighted=weighted)
    assert {name: evaluated[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert len(expected) == 4


@pytest.mark.parametrize(("label", "units"), [(THREE, 3), (Regression(), 1)])
def test_examples_without_a_label_are_left_out_of_evaluations(caplog, label, units):
    model = make_model(units)
    model.compile("adam", SPARSE if label is THREE else "mse")
    expected = measure(label, model)
    assert measure(label, model, num_unlabelled=3) == pytest.approx(expected, rel=1e-5)
    assert "6 examples of the eval split have no label" in caplog.text


@pytest.mark.parametrize("label", [THREE, FLAGS, Regression()], ids=["one", "several", "number"])
def test_an_evaluation_in_parts_equals_that_of_the_whole_table(monkeypatch, label):
    model = make_model(1 if isinstance(label, Regression) else 3)
    model.compile("adam", SPARSE if label is THREE else "mse")
    expected = measure(label, model)
    monkeypatch.setattr(Workload, "num_rows_at_once", 5)
    assert measure(label, model) == pytest.approx(expected, rel=1e-5)


def test_a_metric_that_is_no_sum_is_measured_only_in_evaluation(caplog):
    model = make_model(1)
    model.compile("adam", "mse", metrics=[LargestError(), "mae"])
    objective = make_objective(Regression(), model)
    assert "only in evaluation: largest" in caplog.text
    _, sums = contribute(objective, Regression(), model)
    assert set(objective.metrics(sums.numpy(), num_examples=COUNT)) == {"loss", "mae"}
    inputs, labels = make_examples(Regression(), count=COUNT)
    largest = np.abs(labels - model.predict(inputs, verbose=0)[:, 0]).max()
    assert measure(Regression(), model)["largest"] == pytest.approx(largest, rel=1e-5)


def test_a_loss_that_is_no_sum_needs_one_device():
    def spread(truth, predicted):
        return keras.ops.std(truth - predicted)

    model = make_model(1)
    model.compile("adam", spread)
    contribute(make_objective(Regression(), model), Regression(), model)
    with pytest.raises(ConfigError, match=r"spread.*2 devices.*--micro-batches"):
        make_objective(Regression(), model, num_parts=2)


def of_positives(truth, predicted):
    """The mean error of the positives, which normalises itself."""
    errors = truth * (1 - predicted)
    return keras.ops.sum(errors) / (keras.ops.sum(truth) + 1e-6) + 0 * errors


@pytest.mark.parametrize(
    ("label", "units", "loss"),
    [
        (Binary(), 2, losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1)),
        (Binary(), 1, of_positives),
        (FLAGS, 3, of_positives),
    ],
    ids=["one of two", "own", "own of flags"],
)
def test_a_loss_that_is_no_mean_over_all_examples_needs_one_device(label, units, loss):
    model = make_model(units)
    model.compile("adam", loss)
    make_objective(label, model)
    with pytest.raises(ConfigError, match=r"neither the mean nor the sum.*2 devices"):
        make_objective(label, model, num_parts=2)


def test_a_mean_over_weights_may_have_parts_without_weights():
    model = make_model(1)
    model.compile("adam", losses.MeanSquaredError(reduction="mean_with_sample_weight"))
    make_objective(Regression(), model, num_parts=2)


def test_only_the_output_of_the_label_is_trained():
    model = make_model(1, names=("label", "other"))
    loss = losses.Huber()
    model.compile("adam", loss, metrics=["mse"], loss_weights=2.0)
    objective = make_objective(Regression(), model)
    _, sums = contribute(objective, Regression(), model)
    inputs, labels = make_examples(Regression(), count=COUNT)
    alone = keras.Model(model.input, model.output["label"])
    alone.compile("adam", loss, loss_weights=2.0, metrics=["mse"])
    expected = alone.evaluate(inputs, labels[:, None], verbose=0, return_dict=True)
    measured = objective.metrics(sums.numpy(), num_examples=COUNT)
    assert measured == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("label", "units", "expected"),
    [
        (THREE, 3, {"loss", "accuracy"}),
        (Binary(), 1, {"loss", "accuracy", "auc"}),
        (Binary(), 2, {"loss", "accuracy", "auc"}),
        (FLAGS, 3, {"loss", "accuracy", "auc", "f1"}),
        (Regression(), 1, {"loss", "mae", "rmse", "r2"}),
    ],
    ids=["classes", "binary-1", "binary-2", "multilabel", "regression"],
)
def test_the_kind_of_label_decides_what_is_not_compiled(label, units, expected):
    model = make_model(units)
    evaluated = measure(label, model)
    assert set(evaluated) == expected
    objective = make_objective(label, model)
    loss, sums = contribute(objective, label, model)
    measured = objective.metrics(sums.numpy(), num_examples=COUNT)
    assert measured["loss"] == pytest.approx(float(loss))
    for name in set(measured) - {"loss"}:
        assert measured[name] == pytest.approx(evaluated[name], rel=1e-4)
    data_loss = float(loss - sum(model.losses))
    assert evaluated["loss"] == pytest.approx(
        data_loss if isinstance(label, Classes | Binary) else float(loss), rel=1e-4
    )


@pytest.mark.parametrize(
    ("setting", "metric", "is_lower_better"),
    [
        ("loss", "loss", True),
        ("accuracy", "accuracy", False),
        ("mae", "mae", True),
        ("top", "top", False),
        ("own:max", "own", False),
    ],
)
def test_any_metric_decides_which_checkpoint_is_best(setting, metric, is_lower_better):
    def own(truth, predicted):
        return keras.ops.mean(truth * predicted, axis=-1)

    model = make_model()
    top = metrics.TopKCategoricalAccuracy(k=2, name="top")
    model.compile(
        "adam", losses.CategoricalCrossentropy(from_logits=True), metrics=[top, own, "mae"]
    )
    objective = make_objective(THREE, model)
    criterion = objective.criterion(setting)
    assert (criterion.metric, criterion.is_lower_better) == (metric, is_lower_better)
    with pytest.raises(ConfigError, match=r"--best-metric.*own:max"):
        objective.criterion("own")
    with pytest.raises(ConfigError, match=r"--best-metric: 'acuracy'.*accuracy"):
        objective.criterion("acuracy")


@pytest.mark.parametrize(
    ("label", "make", "compile_", "message"),
    [
        (THREE, lambda: make_model(2), {"loss": SPARSE}, r"\[batch, 2\].*Classes.*\[batch, 3\]"),
        (Regression(), lambda: make_model(2), {}, r"\[batch, 2\].*\[batch, 1\].*Dense\(1\)"),
        (
            FLAGS,
            make_model,
            {"loss": SPARSE},
            r"sparse_categorical.*does not fit .*Multilabel.*\[batch, 3\]",
        ),
        (
            THREE,
            make_model,
            {"loss": SPARSE, "metrics": [metrics.F1Score()]},
            r"metric.*class numbers.*sparse_categorical",
        ),
        (
            THREE,
            make_model,
            {"loss": losses.CategoricalCrossentropy(from_logits=True, reduction=None)},
            r"categorical_crossentropy is not one number.*sum_over_batch_size",
        ),
        (
            Regression(),
            lambda: make_model(1, names=("one", "two")),
            {"loss": "mse"},
            r"outputs one, two.*'label'",
        ),
    ],
    ids=["classes", "value", "sparse", "metric", "reduction", "outputs"],
)
def test_what_does_not_fit_is_named_before_training(label, make, compile_, message):
    model = make()
    if compile_:
        model.compile(optimizer="adam", **compile_)
    with pytest.raises(ConfigError, match=message):
        make_objective(label, model)
