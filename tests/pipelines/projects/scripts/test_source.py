"""Keras models as Python: the source builds the same model."""

import ast
from pathlib import Path

import numpy as np
import pytest

from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import keras  # noqa: E402

from pipelines.projects.scripts.script_text import ScriptFault, ScriptText  # noqa: E402
from pipelines.projects.scripts.source import Writer, keep_arguments  # noqa: E402

layers = keras.layers
keep_arguments()


def chain():
    scaled = layers.Normalization()
    scaled.adapt(np.random.default_rng(1).normal(3, 2, (50, 4)))
    return keras.Sequential(
        [
            keras.Input((4,)),
            scaled,
            layers.Dense(5, activation="relu", kernel_regularizer="l2", name="first"),
            keras.Sequential([layers.BatchNormalization(momentum=0.9), layers.LeakyReLU()]),
            layers.Dense(2, bias_initializer=keras.initializers.Constant(0.5)),
        ]
    )


def branches():
    inputs = keras.Input((4,))
    x = layers.Dense(4, activation="gelu")(inputs)
    shared = layers.Dense(4)
    y = keras.ops.mean(shared(x) + shared(inputs), axis=-1, keepdims=True)
    return keras.Model(inputs, layers.Concatenate()([y[:, :1], keras.ops.relu(x), inputs]))


def shared():
    inputs, other = keras.Input((2,)), keras.Input((4,))
    inner = keras.Model(inputs, layers.Dense(3)(layers.Dense(4, "relu")(inputs)))
    scores = layers.MultiHeadAttention(1, 2)(
        *[layers.Reshape((4, 1))(other)] * 2, return_attention_scores=True
    )[1]
    halves = [inner(other[:, :2]), inner(other[:, 2:]), layers.Flatten()(scores)]
    return keras.Model(other, layers.Concatenate()(halves))


@pytest.mark.parametrize("make", [chain, branches, shared])
def test_the_source_of_a_model_builds_the_same(make):
    model = make()
    writer = Writer(ScriptText(Path("train.py"), ""), {})
    text = writer.of(model)
    _, definitions = writer.definitions()
    scope = {"keras": keras}
    exec("\n".join([*definitions, f"built = {text}"]), scope)
    built, batch = scope["built"], np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32)
    built(batch)
    adapted = [one for one in model.layers if isinstance(one, layers.Normalization)]
    learnt = {id(variable) for layer in adapted for variable in layer.variables}
    own = [variable for variable in model.weights if id(variable) not in learnt]
    assert [one.shape for one in built.weights] == [one.shape for one in own]
    for variable, one in zip(built.weights, own, strict=True):
        variable.assign(one)
    np.testing.assert_allclose(built(batch), model(batch), rtol=1e-5, atol=1e-6)


def slowed():
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.learning_rate = 0.5
    return optimizer


def patient():
    callback = keras.callbacks.EarlyStopping("loss")
    callback.patience = 7
    return callback


def frozen():
    layer = layers.Dense(2)
    layer.trainable = False
    return layer


OBJECTS = {
    "keras.optimizers.Adam(learning_rate=0.01)": lambda: keras.optimizers.Adam(0.01),
    "keras.optimizers.SGD("
    "learning_rate=keras.optimizers.schedules.ExponentialDecay("
    "initial_learning_rate=0.1, decay_steps=100, decay_rate=0.96), momentum=0.9"
    ")": lambda: keras.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.1, 100, 0.96), momentum=0.9
    ),
    "keras.optimizers.SGD(learning_rate=0.5)": slowed,
    'keras.callbacks.EarlyStopping(monitor="loss", patience=7)': patient,
    'keras.metrics.AUC(curve="PR", name="auc")': lambda: keras.metrics.AUC(curve="PR", name="auc"),
    "keras.losses.BinaryCrossentropy(from_logits=True)": lambda: keras.losses.BinaryCrossentropy(
        from_logits=True
    ),
    "keras.losses.mean_squared_error": lambda: keras.losses.mean_squared_error,
    'keras.layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")': lambda: (
        layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")
    ),
    "keras.losses.Huber(delta=2.5)": lambda: keras.losses.Huber(2.5),
    "keras.layers.Dense(units=2, activity_regularizer=keras.regularizers.L2(l2=0.1))": lambda: (
        layers.Dense(2, activity_regularizer=keras.regularizers.L2(0.1))
    ),
    'keras.layers.Dense(units=2, dtype="mixed_float16")': lambda: layers.Dense(
        2, dtype="mixed_float16"
    ),
    "keras.layers.Dense(units=2, trainable=False)": frozen,
    'keras.layers.Dense(name="d", trainable=True, dtype="float32", units=2, '
    'activation="linear", kernel_initializer=keras.initializers.GlorotUniform(), '
    "bias_initializer=keras.initializers.Zeros())": lambda: layers.Dense.from_config(
        layers.Dense(2, name="d").get_config()
    ),
}


@pytest.mark.parametrize("expected", OBJECTS)
def test_an_object_is_written_with_the_arguments_that_are_no_defaults(expected):
    writer = Writer(ScriptText(Path("train.py"), ""), {})
    assert ast.unparse(ast.parse(writer.of(OBJECTS[expected]()))) == expected.replace('"', "'")


SCRIPT = """\
import keras
from keras import ops
GAMMA = 2.0
DATA = object()

def weight(error):
    return error**GAMMA

def focal(labels, likely):
    return ops.mean(weight(ops.abs(labels - likely)))

def bad(labels, likely):
    return DATA
"""


def test_a_function_of_the_script_comes_with_all_that_it_uses(tmp_path):
    text = ScriptText(tmp_path / "train.py", SCRIPT)
    scope = {}
    exec(SCRIPT, scope)
    writer = Writer(text, scope)
    assert writer.of(scope["focal"]) == "focal"
    imports, definitions = writer.definitions()
    assert imports == ["from keras import ops"]
    assert [one.splitlines()[-1] for one in definitions] == [
        *("GAMMA = 2.0", "    return error**GAMMA"),
        "    return ops.mean(weight(ops.abs(labels - likely)))",
    ]
    with pytest.raises(ScriptFault, match=r"DATA is used .* cannot be written down"):
        writer.of(scope["bad"])
