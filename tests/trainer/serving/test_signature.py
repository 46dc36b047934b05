"""SavedModels from other programs, in TensorFlow Serving's row format."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from trainer.errors import InstanceError, TrainerError
from trainer.serve import load_ready_predictor
from trainer.serving.signature import SignaturePredictor, read_signature


class Scale(tf.Module):
    """Two inputs, two outputs, a variable."""

    def __init__(self):
        super().__init__()
        self.factor = tf.Variable(2.0)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.float32, name="row"),
            tf.TensorSpec([None], tf.int32, name="index"),
        ]
    )
    def serve(self, row, index):
        return {"scaled": row * self.factor, "picked": tf.gather(row, index, axis=1, batch_dims=1)}


class Upper(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        return {"upper": tf.strings.upper(text), "same_bytes": text}


class Sums(tf.Module):
    """Lists of any length, and a second signature."""

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, name="x")])
    def serve(self, x):
        return {"sum": tf.reduce_sum(x, axis=1)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def double(self, x):
        return {"twice": 2 * x}


class Fixed(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([1, 3], tf.float32, name="x")])
    def serve(self, x):
        return {"y": x}


def save(module, folder, **signatures):
    tf.saved_model.save(module, str(folder), signatures=signatures or module.serve)
    return str(folder)


@pytest.fixture(scope="module")
def keras_model(tmp_path_factory):
    """A folder exported by Keras, and the model's outputs for two rows."""
    import keras

    folder = str(tmp_path_factory.mktemp("keras") / "model")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.export(folder, verbose=False)
    return folder, model(np.array([[1, 2, 3], [0, 0, 1]], np.float32)).numpy().tolist()


@pytest.fixture(scope="module")
def predictors(tmp_path_factory, keras_model):
    folder = tmp_path_factory.mktemp("models")
    return {
        "keras": SignaturePredictor(keras_model[0]),
        "scale": SignaturePredictor(save(Scale(), folder / "scale")),
        "upper": SignaturePredictor(save(Upper(), folder / "upper")),
        "sums": SignaturePredictor(
            save(sums := Sums(), folder / "sums", serving_default=sums.serve, double=sums.double)
        ),
    }


def test_lists_of_different_lengths_in_a_request_are_predicted_in_order(predictors):
    assert predictors["sums"].predict([[1, 2, 3], [4], [5, 6, 7]]) == [6.0, 4.0, 18.0]


def test_a_known_signature_is_used_and_an_unknown_one_refused(predictors):
    assert predictors["sums"].predict([1.5, 2], "double") == [3.0, 4.0]
    with pytest.raises(InstanceError, match="no signature 'nope'; it has double, serving_default"):
        predictors["sums"].predict([1.5], "nope")


def test_a_prediction_that_is_not_finite_is_an_error_of_its_instance(predictors):
    big = 3e38
    with pytest.raises(InstanceError, match="instance 2: its prediction is not finite: 'sum' is i"):
        predictors["sums"].predict([[1], [2, 3], [big, big]])


def test_a_keras_model_is_served_in_both_row_formats(keras_model):
    predictor = load_ready_predictor(keras_model[0])
    name = next(iter(read_signature(keras_model[0]).inputs))

    rows = predictor.predict([[1, 2, 3], [0, 0, 1]])
    objects = predictor.predict([{name: [1, 2, 3]}, {name: [0, 0, 1]}])
    assert rows == objects
    assert np.asarray(rows) == pytest.approx(np.asarray(keras_model[1]), abs=1e-6)
    assert json.loads(json.dumps(rows)) == rows


def test_several_inputs_and_outputs_are_objects_by_name(predictors):
    instances = [{"row": [1, 2], "index": 1}, {"row": [3, 4.5], "index": 0}]

    assert predictors["scale"].predict(instances) == [
        {"picked": 2.0, "scaled": [2.0, 4.0]},
        {"picked": 3.0, "scaled": [6.0, 9.0]},
    ]


def test_texts_and_base64_are_strings_of_bytes(predictors):
    predictions = predictors["upper"].predict(["aé", {"b64": "/2E="}, {"text": "b"}])

    assert predictions == [
        {"same_bytes": {"b64": "YcOp"}, "upper": "Aé"},
        {"same_bytes": {"b64": "/2E="}, "upper": {"b64": "/0E="}},
        {"same_bytes": {"b64": "Yg=="}, "upper": "B"},
    ]


@pytest.mark.parametrize(
    ("model", "instance", "message"),
    [
        ("keras", [1, 2], r"keras_tensor.* has shape \(2,\), expected \(3,\)"),
        ("keras", [1, [2], 3], "its lists have different lengths"),
        ("keras", ["a", "b", "c"], "values of type float32"),
        ("keras", [True, False, True], "values of type float32"),
        ("keras", [1, 1e39, 2], "a number that is too large for float32"),
        ("keras", None, "values of type float32"),
        ("keras", {"inputs": [1, 2, 3]}, r"it must hold 'keras_tensor.*' \(float32 \[3\]\)"),
        ("scale", [1, 2], r"it must hold 'index' \(int32 \[\]\), 'row' \(float32 \[2\]\)"),
        ("scale", {"row": [1, 2]}, "it must hold 'index'"),
        ("scale", {"row": [1, 2], "index": 0.5}, "index: it must hold values of type int32"),
        ("scale", {"row": [1, 2], "index": 2**31}, "index: it must hold .* to 2147483647"),
        ("upper", 3, "it must hold texts"),
        ("upper", {"b64": "?"}, "not base64"),
        ("upper", ["a"], r"text: it has shape \(1,\), expected \(\)"),
    ],
    ids=str,
)
def test_an_invalid_instance_is_named(predictors, model, instance, message):
    right = {"keras": [1, 2, 3], "scale": {"row": [1, 2], "index": 0}, "upper": "a"}[model]

    with pytest.raises(InstanceError, match=f"instance 1: .*{message}"):
        predictors[model].predict([right, instance])


def test_an_error_of_the_graph_is_an_instance_error_in_one_line(predictors):
    with pytest.raises(InstanceError, match=r"instances: .*7") as error:
        predictors["scale"].predict([{"row": [1, 2], "index": 7}])
    assert len(str(error.value).splitlines()) == 1


def test_a_model_that_cannot_be_served_says_why(tmp_path):
    fixed, nothing = Fixed(), tmp_path / "nothing"
    nothing.mkdir()
    for folder, message in (
        (save(fixed, tmp_path / "fixed"), r"shape \(1, 3\); .*first dimension must be None"),
        (
            save(fixed, tmp_path / "other", classify=fixed.serve),
            r"no signature 'serving_default'.*classify\)",
        ),
        (str(nothing), "not a SavedModel"),
    ):
        with pytest.raises(TrainerError, match=message):
            read_signature(folder)
    damaged = tmp_path / "fixed" / "saved_model.pb"
    damaged.write_bytes(os.urandom(100))
    with pytest.raises(TrainerError, match="not a SavedModel"):
        read_signature(str(tmp_path / "fixed"))
