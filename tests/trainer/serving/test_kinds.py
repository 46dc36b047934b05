"""Exported models of each kind of label, served with and without the user's code."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.data.encoded_tables import FEATURES, ROWS, adapted, make_example
from trainer.config.trust import OWN
from trainer.errors import InstanceError, TrainerError
from trainer.metrics.decision import DecisionRule
from trainer.serving.export import export_model, load_predictor
from trainer.workloads import (
    Binary,
    Classes,
    Multilabel,
    Number,
    Regression,
    Table,
    load_workload,
)
from trainer.workloads.declarations.labels.multilabel import score_labels


def exported(table, folder, rows=ROWS):
    """Return an untrained model's predictor for an adapted table, the model, and the table."""
    table, examples = adapted(table, rows)
    keras.utils.set_random_seed(1)
    model = table.build_model()
    export_model(model, table, str(folder))
    features, _ = table.parse(examples)
    outputs = model(table.preprocess(table.encode(features)), training=False)
    return load_predictor(str(folder), trust=OWN), outputs, table


def instances_of(table, rows):
    examples = tf.constant([make_example(row) for row in rows])
    columns = {name: column.numpy() for name, column in table.parse(examples)[0].items()}
    found = [
        table.format_instance({name: column[at] for name, column in columns.items()})
        for at in range(len(rows))
    ]
    return json.loads(json.dumps(found, allow_nan=False))


@pytest.mark.parametrize(
    "label",
    [
        Binary("y", positive="yes"),
        Classes("y", values=("a", "b", "c")),
        Multilabel("y", values=("a", "b")),
        Regression("y"),
    ],
    ids=lambda label: type(label).__name__,
)
def test_a_table_is_served_without_its_declaration(label, tmp_path):
    predictor, outputs, table = exported(
        Table(FEATURES, label=label, name="none", reference="/no/such/folder", weight="w"),
        tmp_path / "model",
    )
    rows = ROWS[:2]
    instances = [*instances_of(table, rows), {"key": "k", "plan": None}]
    predictions = predictor.predict(instances)
    assert predictions[2].pop("key") == "k"
    assert [list(one) for one in predictions] == [FIELDS[type(label)]] * 3
    names = list(table.labels)
    if isinstance(label, Regression):
        values = [one["value"] for one in predictions[:2]]
        np.testing.assert_allclose(values, outputs[:2, 0], rtol=1e-4)
    else:
        likely = np.array([one["probabilities"] for one in predictions])
        likelihood = tf.sigmoid if isinstance(label, Multilabel) else tf.nn.softmax
        np.testing.assert_allclose(likely[:2], likelihood(outputs)[:2], rtol=1e-4)
    if isinstance(label, Multilabel):
        expected = [
            [name for name, p in zip(names, row, strict=True) if p >= 0.5] for row in likely
        ]
        assert [one["labels"] for one in predictions] == expected
    elif not isinstance(label, Regression):
        assert [one["label"] for one in predictions] == [names[at] for at in likely.argmax(axis=1)]
    signature = tf.saved_model.load(str(tmp_path / "model")).signatures["examples"]
    of_examples = signature(examples=tf.constant([make_example(row) for row in rows]))
    field = "value" if isinstance(label, Regression) else "probabilities"
    np.testing.assert_allclose(
        of_examples[field], [one[field] for one in predictions[:2]], rtol=1e-4
    )
    with pytest.raises(InstanceError, match="instance 0: rooms is 99"):
        predictor.predict([{"rooms": 99}])


FIELDS = {
    Binary: ["class", "label", "probabilities"],
    Classes: ["class", "label", "probabilities"],
    Multilabel: ["labels", "probabilities"],
    Regression: ["value"],
}


def test_one_probability_and_further_outputs_are_predictions(tmp_path):
    def model(inputs):
        x = inputs["x"]
        positive = keras.layers.Dense(1, activation="sigmoid")(x)
        built = keras.Model(inputs, {"y": positive, "size": keras.layers.Dense(2)(x)})
        built.compile(loss={"y": "binary_crossentropy"})
        return built

    table = Table([Number("x")], label=Binary("y", names=("no", "yes")), model=model, name="two")
    predictor, outputs, _ = exported(table, tmp_path / "model", [{"x": 1.0}, {"x": 3.0}])
    [first, _] = predictor.predict([{"x": 1}, {"x": 3}])
    positive = float(outputs["y"][0, 0])
    np.testing.assert_allclose(first["probabilities"], [1 - positive, positive], rtol=1e-5)
    np.testing.assert_allclose(first["size"], outputs["size"][0], rtol=1e-5)
    assert first["label"] == ["no", "yes"][first["class"]]


WITH_HOOK = """
from trainer.workloads import Number, Regression, Table

def as_price(prediction):
    return {"price": round(prediction["value"], 1), "currency": "CHF"}

workload = Table([Number("x")], label=Regression("y"), postprocess=as_price)
"""


def test_a_hook_is_loaded_from_the_file_that_the_model_names(tmp_path):
    folder = tmp_path / "price"
    folder.mkdir()
    (folder / "workload.py").write_text(WITH_HOOK)
    rows = [{"x": 1.0, "y": 10.0}, {"x": 2.0, "y": 30.0}]
    predictor, outputs, _ = exported(load_workload(str(folder)), tmp_path / "model", rows)
    [first, second] = predictor.predict([{"x": 1}, {"x": 2, "key": 7}])
    assert first == {"price": pytest.approx(float(outputs[0, 0]), abs=0.1), "currency": "CHF"}
    assert second["key"] == 7
    source = (folder / "workload.py").read_text()
    (folder / "workload.py").write_text(source.replace("return {", "return 3.5, {"))
    with pytest.raises(TrainerError, match=r"postprocess of price returned \(3\.5.*a dict"):
        load_predictor(str(tmp_path / "model"), trust=OWN).predict([{"x": 1}])
    shutil.rmtree(folder)
    with pytest.raises(TrainerError, match=r"there is no folder .*/price"):
        load_predictor(str(tmp_path / "model"), trust=OWN)


def test_several_labels_are_scored_one_by_one():
    likely = np.array([[0.9, 0.2], [0.6, 0.1], [0.4, 0.3]])
    truth = np.array([[1, 0], [0, 0], [1, 0]], np.float32)
    first, second = score_labels(likely, truth, ["a", "b"])
    assert first == {
        "label": "a",
        "share": pytest.approx(2 / 3),
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "auc": 0.5,
    }
    assert (second["share"], second["f1"]) == (0, 0)
    assert np.isnan([second["precision"], second["recall"], second["auc"]]).all()


def test_a_served_model_decides_by_its_temperature_and_threshold(tmp_path):
    label = Binary("y", positive="yes", names=("no", "yes"), threshold="f1")
    rows = [{"x": 1.0}, {"x": 3.0}]
    table, _ = adapted(Table([Number("x")], label=label), rows)
    model = table.build_model()
    export_model(model, table, str(tmp_path / "plain"))
    plain = load_predictor(str(tmp_path / "plain"), trust=OWN).predict(rows)
    odds = np.array([one["probabilities"][1] / one["probabilities"][0] for one in plain])
    likely = odds**0.5 / (1 + odds**0.5)

    decision = DecisionRule(temperature=2.0, threshold=float(likely.mean()), loss_after=0.6)
    export_model(model, table, str(tmp_path / "decided"), decision=decision)
    predictor = load_predictor(str(tmp_path / "decided"), trust=OWN)
    found = predictor.predict(rows)
    np.testing.assert_allclose([one["probabilities"][1] for one in found], likely, rtol=1e-5)
    assert [one["class"] for one in found] == (likely >= likely.mean()).astype(int).tolist()
    assert sorted(one["label"] for one in found) == ["no", "yes"]
    assert predictor.workload.label.threshold == decision.threshold
    assert predictor.decision["loss_after"] == 0.6
