"""Models that a trained one is compared with: the default version, and simple ones."""

import json
import re
import sys
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from components.evaluate.gate import options
from components.evaluate.gate.baseline import fit_linear, fit_trees, has_columns
from components.evaluate.gate.champion import NotComparableError, check_split
from tests.support.data.encoded_tables import adapted
from tests.support.data.evaluated_tables import FEATURES, MODEL, Evaluated, rows_of
from tests.support.data.offline import evaluated_offline
from trainer.errors import ConfigError, InputError
from trainer.workloads import (
    Category,
    Classes,
    ImageFolder,
    Multilabel,
    Number,
    Regression,
    Table,
)

pytestmark = pytest.mark.timeout(120)

GATE = '{"slices": "buckets(age; 10; 30),missing(at)", "slice_min_examples": 2, "baseline": "none"}'


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> Evaluated:
    """The evaluation of a first model, untrained, of a number that is a multiple of another one."""
    folder = tmp_path_factory.mktemp("first")
    return Evaluated(folder, Regression("y"), gate='{"slice_min_examples": 2, "slices": "age"}')


@pytest.fixture(scope="module")
def second(first, tmp_path_factory) -> Evaluated:
    """The same model with the first one as its champion."""
    folder = tmp_path_factory.mktemp("second")
    return Evaluated(folder, Regression("y"), gate=GATE, champion=str(first.model_dir))


def test_no_version_is_worse_than_a_constant_though_it_beats_the_champion(first, tmp_path):
    rows = [{**row, **({"y": -row["y"]} if "y" in row else {})} for row in rows_of(Regression("y"))]
    champion = str(first.model_dir)
    evaluated = Evaluated(tmp_path, Regression("y"), gate="{}", champion=champion, rows=rows)
    checks = {check["name"]: check["ok"] for check in evaluated.evaluation["checks"]}
    assert checks == {"champion": True, "baseline": False}
    assert evaluated.judgement.verdict == "failed"
    assert "the best constant prediction" in evaluated.judgement.reasons[1]


@pytest.mark.parametrize(
    ("label", "train", "test", "values"),
    [
        (Regression("y"), [0.0, 2.0, 4.0, 6.0], [8.0, 10.0, 12.0, 14.0], (8.3066, 2.2361)),
        (Classes("y", values=("a", "b", "c")), "aaab", "bbbc", (0, 0.75)),
        (
            Multilabel("y", values=("a", "b")),
            ["a", "a", "b", "a"],
            ["b", "b", "ab"],
            (1 / 6, 5 / 6),
        ),
    ],
    ids=["number", "classes", "several"],
)
def test_the_best_constant_is_learnt_from_the_train_split(tmp_path, label, train, test, values):
    is_several = isinstance(label, Multilabel)
    train, test = (
        [{"age": 1.0, "y": list(y) if is_several else y} for y in split] for split in (train, test)
    )
    train += [{"age": 1.0}] * (not is_several)  # without a label
    metric = "rmse" if isinstance(label, Regression) else "accuracy"
    gate = json.dumps({"baseline": "constant", "metric": metric})
    evaluated = Evaluated(tmp_path, label, gate=gate, rows=test, train=train, features=FEATURES[:1])
    found = evaluated.evaluation
    assert found["baseline"]["name"] == "constant"
    measured = (found["baseline"]["metrics"][metric], found["own_constant"])
    assert measured == pytest.approx(values, abs=1e-4)
    assert "For information: the best constant for these very examples" in evaluated.report


RULE, COLUMNS = "by a hash of all values of a row: train 0.8", ["age", "y"]
OF_ROWS = {"split_rule": f"{RULE}; limited to 9 rows", "split_columns": COLUMNS}
OF_DAYS = {
    "split_rule": "by at: test 20d",
    "split": {"by": "at", "test": ["20d"], "starts": {"test": "2026-02-01"}},
}


def from_day(day: str) -> dict:
    return {"rule": "by at: test 30d", "columns": [], "by": "at", "starts": {"test": day}}


@pytest.mark.parametrize(
    ("manifest", "record", "reason"),
    [
        (OF_ROWS, None, "by a rule that is not recorded"),
        (OF_ROWS, {"rule": "by a hash of id", "columns": []}, "by a hash of id, and are now split"),
        (
            OF_ROWS,
            {"rule": RULE, "columns": ["age", "town", "y"]},
            "other columns (town came or went)",
        ),
        (OF_ROWS, {"rule": RULE, "columns": COLUMNS}, ""),
        (OF_DAYS, from_day("2026-01-01"), ""),
        (OF_DAYS, from_day("2026-02-01"), ""),
        (OF_DAYS, from_day("2026-03-01"), "may have been trained on rows of this test"),
    ],
    ids=["unknown", "rule", "columns", "same", "earlier days", "same day", "later days"],
)
def test_a_champion_of_another_split_is_not_compared(tmp_path, manifest, record, reason):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "input.json").write_text(json.dumps({"split": record} if record else {}))
    with pytest.raises(NotComparableError, match=re.escape(reason)) if reason else nullcontext():
        check_split(str(tmp_path), str(tmp_path))


def test_a_first_model_is_compared_with_a_linear_one(first):
    evaluation = first.evaluation
    assert first.judgement.verdict == "failed"
    assert evaluation["champion"] is None
    assert evaluation["baseline"]["name"] == "linear"
    assert evaluation["baseline"]["metrics"]["rmse"] < 3 < evaluation["metrics"]["rmse"]
    [check] = evaluation["checks"]
    assert (check["name"], check["ok"]) == ("baseline", False)
    assert evaluation["gain"]["high"] < 0
    assert len(evaluation["slices"]) == 4, "quarters of a number with many values"
    assert {(one["champion"], one["ok"]) for one in evaluation["slices"]} == {(None, True)}


@pytest.mark.parametrize(
    ("net_share", "words"),
    [(0.0, "a line."), (0.5, "a line, plus 50 % of a net, which explains 25 % of the loss")],
)
def test_a_model_that_is_a_line_is_as_good_as_the_linear_one(tmp_path, net_share, words):
    gate = '{"slice_min_examples": 2}'
    evaluated = Evaluated(tmp_path, Regression("y"), gate=gate, net_share=net_share)
    check = evaluated.evaluation["checks"][-1]
    assert check["ok"] == (net_share == 0)
    words_of_gate = "is equal to" if net_share == 0 else "worse than"
    assert re.search(f"{words_of_gate} that of a linear model", check["text"]), check
    assert f"The model: {words}" in evaluated.report


def test_the_champion_predicts_the_examples_of_this_run(first, second):
    evaluation = second.evaluation
    assert second.judgement.verdict == "passed"
    assert evaluation["baseline"] is None
    assert evaluation["champion"]["version"] == f"{MODEL}@3"
    assert evaluation["champion"]["metrics"]["rmse"] == pytest.approx(
        first.metrics.metadata["rmse"]
    )
    assert evaluation["gain"] == {
        "metric": "rmse",
        "difference": 0,
        "low": 0,
        "high": 0,
        "confidence": 0.95,
        "basis": "",
        "words": "not surely better (95 % interval 0.0000 to 0.0000)",
    }
    assert [
        (one["feature"], one["value"], one["num_examples"]) for one in evaluation["slices"]
    ] == [
        ("buckets(age; 10; 30)", "below 10", 10),
        ("buckets(age; 10; 30)", "10 to 30", 20),
        ("buckets(age; 10; 30)", "from 30", 9),
        ("missing(at)", "", 8),
    ]
    assert [check["name"] for check in evaluation["checks"]] == ["champion", "slices"]


def why_not_compared(evaluated) -> str:
    """Return the only reason of a verdict without a comparison; thresholds decide."""
    assert evaluated.judgement.verdict == "passed"
    [reason] = evaluated.judgement.reasons
    assert "no comparison with version 3 is possible" in reason
    return reason


def test_a_champion_that_cannot_be_loaded_is_named(second):
    gone = replace(second.case.champion, model_uri="/no/such/model")
    assert "cannot load" in why_not_compared(evaluated_offline(replace(second.case, champion=gone)))


@pytest.mark.parametrize(
    ("label", "features", "words"),
    [
        (Multilabel("y", values=("a", "c")), FEATURES, "it predicts the label y (Regression)"),
        (Regression("y"), FEATURES[:1], "do not have its inputs at, note, sizes, tags"),
    ],
    ids=["label", "inputs"],
)
def test_a_champion_of_another_task_is_not_comparable(first, tmp_path, label, features, words):
    champion = str(first.model_dir)
    assert words in why_not_compared(
        Evaluated(tmp_path, label, features=features, champion=champion)
    )


def test_classes_of_the_champion_are_found_by_name(tmp_path):
    folders = [tmp_path / "old", tmp_path / "new"]
    for folder in folders:
        folder.mkdir()
    rows = rows_of(Classes("y"))
    old = Evaluated(folders[0], Classes("y", values=("b", "a")), rows=rows, features=FEATURES[:1])
    new = Classes("y", values=("a", "b", "c"))
    champion = str(old.model_dir)
    found = Evaluated(folders[1], new, rows=rows, features=FEATURES[:1], champion=champion)
    assert found.evaluation["champion"]["metrics"]["accuracy"] == pytest.approx(
        old.metrics.metadata["accuracy"]
    )


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ('{"slices": "agee"}', r"no feature 'agee'; did you mean 'age'"),
        ('{"slices": "tags"}', r"'tags' has several values"),
        ('{"metric": "auc"}', r"gate\.metric is 'auc'.*rmse, mae, r2, loss"),
    ],
)
def test_what_the_model_does_not_have_is_named(first, gate, message):
    with pytest.raises(ConfigError, match=message):
        evaluated_offline(replace(first.case, gate=gate))


def test_a_linear_model_of_classes_has_no_gradient_left():
    random = np.random.default_rng(4)
    ages = random.normal(size=300)
    labels = np.digitize(ages + random.normal(scale=0.5, size=300), [-0.5, 0.5])
    rows = [{"age": float(age)} for age in ages]
    label = Classes("y", values=("a", "b", "c"))
    table, _ = adapted(Table([Number("age")], label=label, name="t"), rows)
    features = {"age": ages.astype(np.float32)}
    assert has_columns(table)
    likely = fit_linear(table, features, labels)(features)
    np.testing.assert_allclose(likely.sum(axis=1), 1, rtol=1e-6)
    assert (likely.argmax(axis=1) == labels).mean() > 0.7
    # The intercept's gradient is its penalty, a small number of examples.
    np.testing.assert_allclose(likely.sum(axis=0), np.bincount(labels), atol=3)


@pytest.fixture
def trees(monkeypatch):
    """Find scikit-learn where `make bench` keeps it, apart from what runs install.

    Threads that wait for each other would burn ten seconds on a busy machine.
    """
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(sys, "path", [*sys.path, f"{sys.prefix}/bench"])


def table_of(label, rows):
    features = [Number("age"), Category("town", min_count=1)]
    return adapted(Table(features, label=label, name="t"), rows)[0]


def test_trees_learn_what_a_linear_model_cannot(trees):
    random = np.random.default_rng(4)
    ages, towns = random.normal(size=400).astype(np.float32), random.integers(2, size=400)
    ages[::10] = np.nan
    labels = np.where(np.isnan(ages), 5, np.where(towns == 1, ages, -ages))
    known = [{"age": float(age)} if not np.isnan(age) else {} for age in ages]
    rows = [{**row, "town": "xy"[town]} for row, town in zip(known, towns, strict=True)]
    table = table_of(Regression("y"), rows)
    features = {"age": ages, "town": np.array([row["town"].encode() for row in rows])}

    errors = [
        np.abs(fit(table, features, labels)(features) - labels).mean()
        for fit in (fit_trees, fit_linear)
    ]

    assert errors[0] < 0.2
    assert errors[1] > 0.5


def test_trees_give_a_class_without_rows_the_probability_0(trees):
    ages = np.arange(60, dtype=np.float32)
    labels = np.where(ages < 30, 0, 2)
    table = table_of(Classes("y", values=("a", "b", "c")), [{"age": 1.0, "town": "x"}])
    features = {"age": ages, "town": np.full(60, b"x")}

    likely = fit_trees(table, features, labels)(features)

    np.testing.assert_allclose(likely.sum(axis=1), 1, rtol=1e-6)
    assert (likely[:, 1] == 0).all()
    assert (likely.argmax(axis=1) == labels).all()


@pytest.mark.parametrize("labels", [np.eye(2), np.zeros(2)], ids=["several", "one value"])
def test_labels_that_trees_cannot_learn_are_refused(trees, labels):
    with pytest.raises(InputError, match="need one label with several values"):
        fit_trees(None, {}, labels)


def test_a_first_model_is_compared_with_trees_if_asked(trees, tmp_path):
    label = Regression("y")
    evaluated = Evaluated(tmp_path, label, gate='{"baseline": "trees"}', rows=rows_of(label) * 4)

    assert evaluated.evaluation["baseline"]["name"] == "trees"
    assert "baseline trees" in evaluated.report
    [reason] = evaluated.judgement.reasons
    assert "worse than that of gradient-boosted trees" in reason
    assert "a first version must not be worse" in reason


def test_trees_without_scikit_learn_say_what_to_install(monkeypatch):
    monkeypatch.setattr(options, "find_spec", lambda name: None)

    with pytest.raises(ConfigError, match="needs scikit-learn: pip install scikit-learn"):
        options.GateOptions(baseline="trees")


def test_the_best_constant_is_the_mean_or_the_shares():
    assert Regression("y").fit_constant(np.array([1.0, 3.0]), 0) == 2
    shares = Classes("y").fit_constant(np.array([0, 0, 1, 0]), 3)
    assert shares.tolist() == [0.75, 0.25, 0]
    means = Multilabel("y").fit_constant(np.array([[1.0, 0], [1, 1]]), 2)
    assert means.tolist() == [1, 0.5]
    assert not has_columns(ImageFolder(name="t"))
