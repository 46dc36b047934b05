"""The evaluation step by kind of label, up to predictions that another server must repeat."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from components.errors import StepError
from components.evaluate.assess import assess
from components.evaluate.held_out import read_held_out
from components.run_result.report.content import Content
from components.run_result.report.page import run_page
from components.run_result.summary import summarize
from tests.support.data.encoded_tables import make_example
from tests.support.data.evaluated_tables import (
    FEATURES,
    NUM_ROWS,
    Evaluated,
    rows_of,
    write_examples,
)
from tests.support.data.run_records import job
from trainer.errors import ConfigError, InputError
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.workloads import (
    Classes,
    Multilabel,
    Regression,
)
from trainer.workloads.declarations.labels.regression import score_deciles

import_tensorflow()

import keras  # noqa: E402

from trainer.serving.export import load_predictor  # noqa: E402

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def regression(tmp_path_factory) -> Evaluated:
    thresholds = '{"rmse": {"at_most": 1e6}, "r2": 1}'
    label = Regression("y", unit="CHF & more")
    return Evaluated(tmp_path_factory.mktemp("regression"), label, thresholds=thresholds)


@pytest.fixture(scope="module")
def multilabel(tmp_path_factory) -> Evaluated:
    label = Multilabel("y", values=("a", "<b>", "c"))
    return Evaluated(tmp_path_factory.mktemp("multilabel"), label)


def test_classes_are_compared_by_example_and_one_of_the_test_split_only_is_left_out(tmp_path):
    label = Classes("y", values=("a", "b"))
    rows = rows_of(label)
    rows[3]["y"] = "new"
    evaluated = Evaluated(tmp_path, label, rows=rows, features=FEATURES[:1])
    found, metrics = evaluated.evaluation, evaluated.metrics.metadata
    answers = found["answers"]

    pairs = list(zip(answers["labels"], answers["predicted"], strict=True))
    assert [[pairs.count((a, b)) for b in (0, 1)] for a in (0, 1)] == found["confusion"]
    assert len(pairs) == metrics["num_examples"] == NUM_ROWS - 2  # one has no label
    assert metrics["num_unlabelled"] == 2
    assert {*evaluated.golden["labels"]} == {"a", "b"}
    assert [int(score > 0.5) for score in answers["scores"]] == answers["predicted"]
    assert "Confusion matrix</h2>" in report_of(found)
    logged = evaluated.confusion.metadata["confusionMatrix"]
    assert [row["row"] for row in logged["rows"]] == found["confusion"]
    assert [spec["displayName"] for spec in logged["annotationSpecs"]] == ["a", "b"]
    points = found["curves"]["roc"]["thresholds"]
    assert len(evaluated.confusion.metadata["confidenceMetrics"]) == len(points)


@pytest.mark.parametrize(("name", "metrics"), [("regression", "rmse mae r2"), ("multilabel", "f1")])
def test_metrics_have_intervals(request, name, metrics):
    evaluation = request.getfixturevalue(name).evaluation
    intervals = evaluation["intervals"]
    assert set(intervals) >= {*metrics.split(), "loss"}
    for metric, (low, high) in intervals.items():
        assert low < evaluation["metrics"][metric] < high


def report_of(evaluation):
    """Return the page of a run with an evaluation, as the exit step writes it."""
    return run_page(Content(summary=summarize(job()), evaluation=evaluation))


def test_the_report_of_a_run_draws_every_kind_of_evaluation(regression, multilabel):
    assert "residuals</h2>" in report_of(regression.evaluation)
    assert "By label</h2>" in report_of(multilabel.evaluation)


def test_a_number_has_errors_and_deciles_without_the_missing_label(regression):
    metrics = regression.metrics.metadata
    assert list(metrics) == ["loss", "mae", "rmse", "r2", "num_examples", "num_unlabelled"]
    assert metrics["loss"] == pytest.approx(metrics["rmse"] ** 2)
    assert (metrics["num_examples"], metrics["num_unlabelled"]) == (NUM_ROWS - 1, 1)
    assert len(regression.golden["instances"]) == 10
    deciles = regression.content.pop("by_decile")
    assert regression.content == metrics
    answers = regression.evaluation["answers"]
    errors = np.array(answers["predicted"]) - answers["labels"]
    assert np.abs(errors).mean() == pytest.approx(metrics["mae"])
    assert sum(row["num_examples"] for row in deciles) == NUM_ROWS - 1
    assert json.loads(Path(regression.confusion.path).read_text())["confusion"] == []
    assert "confusionMatrix" not in regression.confusion.metadata


def test_a_class_that_is_never_predicted_is_said_and_nothing_is_important(tmp_path):
    found = Evaluated(tmp_path, Classes("y", values=("a", "b")), model=lazy)
    texts = [check["text"] for check in found.evaluation["checks"]]
    assert any("the model never predicts 'b'" in text for text in texts)
    rows = found.evaluation["importance"]
    assert [row["loss"] for row in rows] == [0] * len(rows) != []


def test_only_the_columns_that_a_model_reads_are_important(tmp_path):
    rows = rows_of(Regression("y"))
    found = Evaluated(tmp_path, Regression("y"), rows=rows, model=by_age)
    rows = found.evaluation["importance"]
    assert [row["feature"] for row in rows if row["loss"]] == ["age"]
    assert len(rows) == len(FEATURES)
    assert "Importance of the columns</h2>" in found.report


def lazy(inputs):
    bias = keras.initializers.Constant([9.0, -9.0])
    layer = keras.layers.Dense(2, kernel_initializer="zeros", bias_initializer=bias)
    return keras.Model(inputs, layer(inputs["age"]))


def by_age(inputs):
    return keras.Model(inputs, keras.layers.Dense(1)(inputs["age"]))


def compiled_model(inputs):
    found = keras.Model(inputs, keras.layers.Dense(1, kernel_regularizer="l2")(inputs["age"]))
    found.compile("adam", keras.losses.Huber(3.0), metrics=["mape"], weighted_metrics=["mse"])
    return found


def test_compile_decides_the_loss_and_adds_metrics_and_thresholds(tmp_path):
    rows = [{**row, "w": 1.0 + number % 3} for number, row in enumerate(rows_of(Regression("y")))]
    text = '{"mape": {"at_most": 0.5}, "r2": {"at_least": -1e9}}'
    declared = {"features": FEATURES[:1], "model": compiled_model, "weight": "w"}
    evaluated = Evaluated(tmp_path, Regression("y"), thresholds=text, rows=rows, **declared)
    features, labels = evaluated.workload.parse([make_example(row) for row in rows[:-1]])
    inputs = evaluated.workload.preprocess(evaluated.workload.encode(features))
    weights = np.array([row["w"] for row in rows[:-1]])
    expected = evaluated.model.evaluate(
        inputs, labels, sample_weight=weights, batch_size=NUM_ROWS, verbose=0, return_dict=True
    )
    metrics = evaluated.metrics.metadata
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert {"loss", "mape", "mse"} <= set(expected)
    assert evaluated.judgement.verdict == "failed"
    assert [reason.split()[0] for reason in evaluated.judgement.reasons] == ["mape", "r2"]


@pytest.mark.parametrize(
    ("label", "value"),
    [(Regression("y"), math.nan), (Classes("y", values=("a", "b")), math.inf)],
    ids=["number", "classes"],
)
def test_a_model_without_finite_predictions_fails_and_its_files_are_json(tmp_path, label, value):
    def broken(inputs):
        bias = keras.initializers.Constant(value)
        units = 1 if isinstance(label, Regression) else 2
        layer = keras.layers.Dense(units, bias_initializer=bias)
        return keras.Model(inputs, layer(inputs["age"]))

    found = Evaluated(tmp_path, label, model=broken, gate="{}", features=FEATURES[:1])

    count = f"{NUM_ROWS - 1} of {NUM_ROWS - 1} predictions"
    assert found.judgement.verdict == "failed"
    assert count in found.judgement.reasons[0]
    assert all("nan" not in reason for reason in found.judgement.reasons)
    assert "not defined" in found.report
    assert ">nan<" not in found.report


def test_the_gate_names_directions(regression):
    assert regression.judgement.verdict == "failed"
    first, second = regression.judgement.reasons
    assert first.endswith("is at most 1,000,000")
    assert second.endswith("is below 1")


def test_the_report_draws_predicted_against_actual_and_residuals(regression):
    page = regression.report
    dots = page.partition('class="points" d="')[2].partition('"')[0]
    assert dots.count("M") == NUM_ROWS - 1
    assert page.count('class="box"') == 10
    for text in ("Predicted against actual", "Residuals by tenth", "least prediction"):
        assert text in page
    assert "CHF &amp; more" in page
    assert "left out, without a label" in page
    assert "Confusion" not in page


def test_several_labels_have_a_row_each(multilabel):
    metrics = multilabel.metrics.metadata
    assert list(metrics) == ["loss", "accuracy", "auc", "f1", "num_examples"]
    rows = multilabel.content["by_label"]
    assert [row["label"] for row in rows] == ["a", "<b>", "c"]
    assert rows[1]["share"] == 0
    assert rows[1]["auc"] is None, "no example has the label"
    assert multilabel.judgement.verdict == "passed"
    for text in ("By label", "&lt;b&gt;", "n/a"):
        assert text in multilabel.report
    assert "ROC" not in multilabel.report


@pytest.fixture
def read_rows(regression, tmp_path):
    """Read rows as a test split with the model of a number."""

    def read(rows):
        write_examples(tmp_path / "examples", rows)
        read_held_out(str(tmp_path / "examples"), load_predictor(str(regression.model_dir)))

    return read


def test_a_split_without_labels_is_named(read_rows):
    with pytest.raises(StepError, match=r"'test'.*label 'y'"):
        read_rows([{name: row[name] for name in row if name != "y"} for row in rows_of(None)])


def test_a_text_that_is_not_utf_8_is_named_with_its_record(read_rows):
    rows = rows_of(None)
    rows[3]["note"] = b"caf\xe9"
    expected = r"test-.*, record 3 \(the first is 0\): note is b'caf\\xe9', which is not UTF-8"
    with pytest.raises(InputError, match=expected):
        read_rows(rows)


def test_a_metric_of_another_kind_is_named_before_the_examples_are_read(regression):
    text = '{"accuracy": 0.9}'
    case = replace(regression.case, examples_dir="/no/such/folder", thresholds=text)
    with pytest.raises(ConfigError, match=r"thresholds\.accuracy.*loss, mae, rmse, r2"):
        assess(case)


def test_deciles_are_by_prediction():
    predictions = np.arange(25, dtype=np.float32)[::-1]
    rows = score_deciles(predictions, predictions + 1)
    assert [row["num_examples"] for row in rows] == [3] * 5 + [2] * 5
    assert (rows[0]["low"], rows[0]["high"], rows[-1]["high"]) == (0, 2, 24)
    assert {(row["residual"], row["mae"]) for row in rows} == {(1, 1)}
    assert rows[0]["residual_shares"] == [1] * 5
    assert [row["actual"] for row in score_deciles(predictions[:2], predictions[:2])] == [23, 24]


def test_errors_and_golden_groups_are_by_kind():
    likely = np.array([[0.9, 0.2], [0.6, 0.1], [0.4, 0.3]], np.float32)
    several = Multilabel("y", values=("a", "b"))
    truth = np.array([[1, 0], [0, 0], [1, 0]], np.float32)
    np.testing.assert_allclose(several.error_sizes(likely, truth), [0, 0.6, 0.6], rtol=1e-6)
    assert several.groups(np.array([[0, 1], [1, 0]]), 10).tolist() == [1, 0]
    values = np.arange(20, dtype=np.float32)[::-1]
    assert Regression("y").error_sizes(values, values + 2).tolist() == [2] * 20
    assert Regression("y").groups(values, 10).tolist() == [n // 2 for n in range(20)][::-1]


def test_the_loss_of_several_labels_is_binary_cross_entropy():
    label = Multilabel("y", values=("a", "b"))
    likely, truth = np.array([[0.5, 0.25]]), np.array([[1.0, 0.0]], np.float32)
    expected = -(math.log(0.5) + math.log(0.75)) / 2
    assert label.score(likely, truth, label.values).metrics["loss"] == pytest.approx(expected)
