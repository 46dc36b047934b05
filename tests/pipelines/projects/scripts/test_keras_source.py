"""Keras models as Python: the source builds the same model."""

from pathlib import Path

import numpy as np
import pytest

from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import keras  # noqa: E402

from pipelines.projects.scripts.keras_source import Source  # noqa: E402
from pipelines.projects.scripts.model_source import ModelSource  # noqa: E402
from pipelines.projects.scripts.script_text import ScriptFault, ScriptText  # noqa: E402

layers = keras.layers


def chain():
    scaled = layers.Normalization()
    scaled.adapt(np.random.default_rng(1).normal(3, 2, (50, 4)))
    return keras.Sequential(
        [
            keras.Input((4,)),
            scaled,
            layers.Dense(5, activation="relu", kernel_regularizer="l2", name="first"),
            layers.BatchNormalization(momentum=0.9),
            layers.Dense(2, bias_initializer=keras.initializers.Constant(0.5)),
        ]
    )


def branches():
    inputs = keras.Input((4,))
    x = layers.Dense(4, activation="gelu")(inputs)
    shared = layers.Dense(4)
    y = keras.ops.mean(shared(x) + shared(inputs), axis=-1, keepdims=True)
    return keras.Model(inputs, layers.Concatenate()([y[:, :1], keras.ops.relu(x), inputs]))


def nested():
    inputs = keras.Input((4,))
    inner = keras.Model(inputs, layers.Add()([layers.Dense(4)(inputs), inputs]), name="inner block")
    return keras.Sequential(
        [keras.Input((4,)), inner, keras.Sequential([layers.Dense(3), layers.LeakyReLU()])]
    )


def recurrent():
    x = keras.Input((4,))
    y = layers.Reshape((4, 1))(x)
    y = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(y)
    y = layers.MultiHeadAttention(num_heads=2, key_dim=3)(y, y)
    return keras.Model(x, layers.Dense(1, dtype="float32")(layers.Flatten()(y)))


def source_of(model):
    source = Source(ScriptText(Path("train.py"), ""), {}, {})
    models = ModelSource(source)
    lines, outputs = models.lines(model, ["inputs"])
    body = "\n".join(f"    {line}" for one in lines for line in one.splitlines())
    imports, definitions = source.definitions()
    end = f"    return keras.Model(inputs, {outputs})"
    return "\n".join([*imports, *definitions, *models.functions, "def build(inputs):", body, end])


@pytest.mark.parametrize("make", [chain, branches, nested, recurrent])
def test_the_source_of_a_model_builds_the_same(make):
    model = make()
    scope = {"keras": keras}
    exec(source_of(model), scope)
    built = scope["build"](keras.Input((4,)))
    adapted = [one for one in model.layers if isinstance(one, layers.Normalization)]
    learnt = {id(variable) for layer in adapted for variable in layer.variables}
    own = [variable for variable in model.weights if id(variable) not in learnt]
    assert [one.shape for one in built.weights] == [one.shape for one in own]
    for variable, one in zip(built.weights, own, strict=True):
        variable.assign(one)
    batch = np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32)
    np.testing.assert_allclose(built(batch), model(batch), rtol=1e-5, atol=1e-6)


OBJECTS = {
    "keras.optimizers.Adam(learning_rate=0.01)": lambda: keras.optimizers.Adam(0.01),
    "keras.optimizers.SGD("
    "learning_rate=keras.optimizers.schedules.ExponentialDecay(0.1, 100, 0.96), momentum=0.9"
    ")": lambda: keras.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.1, 100, 0.96), momentum=0.9
    ),
    'keras.metrics.AUC(name="prc", curve="PR")': lambda: keras.metrics.AUC(name="prc", curve="PR"),
    "keras.losses.BinaryCrossentropy(from_logits=True)": lambda: keras.losses.BinaryCrossentropy(
        from_logits=True
    ),
    'keras.metrics.AUC(name="auc")': lambda: keras.metrics.AUC(name="auc"),
    "keras.losses.mean_squared_error": lambda: keras.losses.mean_squared_error,
    'keras.layers.StringLookup(output_mode="one_hot", vocabulary=["a", "b"])': lambda: (
        layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")
    ),
    "keras.losses.Huber(delta=2.5)": lambda: keras.losses.Huber(2.5),
    "keras.layers.Dense(2, activity_regularizer=keras.regularizers.L2(l2=0.1))": lambda: (
        layers.Dense(2, activity_regularizer=keras.regularizers.L2(0.1))
    ),
    'keras.layers.Dense(2, dtype="mixed_float16")': lambda: layers.Dense(
        2, dtype=keras.config.dtype_policy().__class__("mixed_float16")
    ),
    "keras.layers.Rescaling(0.003921569)": lambda: layers.Rescaling(1 / 255),
}


@pytest.mark.parametrize("expected", OBJECTS)
def test_an_object_is_written_with_the_arguments_that_are_no_defaults(expected):
    source = Source(ScriptText(Path("train.py"), ""), {}, {})
    assert source.of(OBJECTS[expected]()) == expected


@pytest.mark.filterwarnings("ignore:The object being serialized includes a `lambda`")
def test_a_lambda_has_its_source(tmp_path):
    path, text, scope = tmp_path / "train.py", "double = lambda x: x * 2\n", {}
    path.write_text(text)
    exec(compile(text, str(path), "exec"), scope)
    source = Source(ScriptText(path, text), {}, {})
    expected = "keras.layers.Dense(1, activation=lambda x: x * 2)"
    assert source.of(layers.Dense(1, activation=scope["double"])) == expected


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
    values = {"GAMMA": 2.0, "DATA": object()}
    source = Source(text, values, {}).of
    imports, definitions = text.definitions(["focal"], values, source)
    assert imports == ["from keras import ops"]
    assert [one.splitlines()[-1] for one in definitions] == [
        *("GAMMA = 2.0", "    return error**GAMMA"),
        "    return ops.mean(weight(ops.abs(labels - likely)))",
    ]
    with pytest.raises(ScriptFault, match=r"DATA is used .* cannot be written down"):
        text.definitions(["bad"], values, source)
