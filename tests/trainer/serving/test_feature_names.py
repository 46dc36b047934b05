"""Features of any names: exported under names that a signature can have, served under their own."""

import base64

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.data.encoded_tables import make_example
from trainer.config.trust import OWN
from trainer.errors import InstanceError
from trainer.serving.export import argument_names, export_model, load_predictor
from trainer.workloads import Binary, Category, Number, Records, Table, Text, Values

NAMES = (
    "class",
    "from",
    "self",
    "None",
    "Age",
    "age",
    "x.y",
    "x y",
    "x_y",
    "年龄",
    "доход",
    "%",
    "dense",
    "embedding",
    "dense_1",
    "2nd",
)


def build(inputs):
    """Return a model with layers that Keras names `dense`, `dense_1`, … by itself."""
    hidden = keras.layers.Dense(3)(keras.layers.concatenate(list(inputs.values())))
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))


@pytest.mark.parametrize(
    "table",
    [
        Table([Number(name) for name in NAMES], label=Binary("流失"), name="n"),
        Table([Number(name) for name in NAMES], label=Binary("class!"), name="n", model=build),
        Records(
            {name: Values("float32", [1]) for name in NAMES},
            label=Binary("y"),
            name="n",
            model=build,
        ),
    ],
    ids=["default model", "own model", "records"],
)
def test_features_of_any_names_are_exported_and_served(table, tmp_path):
    keras.backend.clear_session()
    values = {name: float(at) for at, name in enumerate(NAMES)}
    if isinstance(table, Table):
        table = table.adapt({name: np.array([0.0, 9.0], np.float32) for name in NAMES})
    model = table.build_model()
    export_model(model, table, str(tmp_path))
    predictor = load_predictor(str(tmp_path), trust=OWN)
    row = values if isinstance(table, Table) else {name: [one] for name, one in values.items()}
    example = {"b64": base64.b64encode(make_example(values)).decode()}
    by_name, serialized = predictor.predict([row, example])
    assert by_name == serialized
    columns = {name: np.stack([column]) for name, column in table.parse_instance(row).items()}
    outputs = model(table.preprocess(table.encode(columns)), training=False)
    expected = float(
        tf.sigmoid(outputs)[0, -1] if outputs.shape[1] == 1 else tf.nn.softmax(outputs)[0, 1]
    )
    assert by_name["probabilities"][1] == pytest.approx(expected, rel=1e-4)


def test_names_that_a_signature_can_have_stay_as_they_are():
    plain = {"age": "age", "Sepal.Length": "Sepal_Length", "x y": "x_y", "m²": "m_"}
    assert argument_names(plain) == plain


def test_names_in_a_signature_are_readable_and_distinct():
    assert argument_names(["class", "x/y", "x.y", "Age", "age", "self", "%", "年龄", "2nd"]) == {
        "class": "class_2",
        "x/y": "x_y",
        "x.y": "x_y_2",
        "Age": "Age",
        "age": "age_2",
        "self": "self_2",
        "%": "input",
        "年龄": "input_2",
        "2nd": "input_2nd",
    }


ALIASED = Table(
    [Number("sepal_length", low=0), Category("c_key"), Text("trip_note")],
    label=Binary("y"),
    aliases={"Sepal/Length": "sepal_length", "key": "c_key", "Y": "y"},
)


@pytest.mark.parametrize(
    ("sent", "same"),
    [
        ({"Sepal/Length": 2.5}, {"sepal_length": 2.5}),
        ({"SEPAL_LENGTH": 2.5, "Trip Note": "a b"}, {"sepal_length": 2.5, "trip_note": "a b"}),
        ({"key": "first"}, {"c_key": "first"}),
        ({"key": "row 7", "c_key": "first"}, {"c_key": "first"}),
    ],
)
def test_requests_may_have_the_names_of_the_files(sent, same):
    expected = ALIASED.parse_instance(same)
    one, [*several] = ALIASED.parse_instance(sent), ALIASED.parse_instances([sent]).values()
    assert str(one) == str(expected)  # NaN is missing
    assert str([column[0] for column in several]) == str([value[()] for value in expected.values()])


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"Sepal/Length": "long"}, "Sepal/Length is 'long'; it must be a number"),
        ({"Sepal/Length": 1, "sepal_length": 1}, "are both 'sepal_length'; send one"),
        ({"Y": 1}, "unknown field 'Y'"),
        ({"Sepal Length": 1, "petal": 1}, "unknown field 'petal'"),
    ],
)
def test_a_wrong_field_is_named_as_it_was_sent(sent, message):
    with pytest.raises(InstanceError, match=f"instance 1: .*{message}"):
        ALIASED.parse_instances([{}, sent])


WRITTEN = Table(
    [
        Category("plan", min_count=1, missing=("?",)),
        Category("is_new", min_count=1),
        Category("code", hashed=10),
        Category("tags", separator=",", min_count=1, max_length=2),
    ],
    label=Binary("y"),
    name="w",
)
TEXTS = {
    "plan": [["yes", b" yes ", b"\tyes"], ["", b"?", b" ? "]],
    "is_new": [["true", b"True", b" TRUE"], ["false", b"False "]],
    "code": [["a", b" a "], ["true", b"True"]],
    "tags": [[["red", "big"], [b" red", b"big "]]],
}


def test_a_model_alone_reads_texts_as_preparing_does(tmp_path):
    facts = {"vocabularies": {"plan": ["yes"], "is_new": ["true", "false"], "tags": ["red", "big"]}}
    table = WRITTEN.with_facts({**WRITTEN.facts(), **facts})
    export_model(table.build_model(), table, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path)).signatures
    empty = {name: [["", ""]] if name == "tags" else [""] for name in TEXTS}

    def by_columns(name, value):
        columns = {**empty, name: [value]}
        tensors = {key: tf.constant(column, tf.string) for key, column in columns.items()}
        return loaded["serving_default"](**tensors)["probabilities"].numpy()

    def by_example(name, value):
        texts = [
            text.encode() if isinstance(text, str) else text for text in np.ravel(value).tolist()
        ]
        examples = tf.constant([make_example({name: texts})])
        return loaded["examples"](examples)["probabilities"].numpy()

    for name, groups in TEXTS.items():
        for plain, *others in groups:
            expected = by_columns(name, plain)
            for other in others:
                np.testing.assert_array_equal(by_columns(name, other), expected)
                np.testing.assert_array_equal(by_example(name, other), expected)
