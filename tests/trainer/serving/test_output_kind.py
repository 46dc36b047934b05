"""Logits or probabilities: seen in the model itself."""

import keras
import pytest
from keras import layers, losses

from tests.trainer.support.tiny import NUM_INPUTS, Tiny
from trainer.errors import ConfigError
from trainer.serving.outputs import output_kind
from trainer.workloads.declarations.labels import Binary, Classes, Multilabel, Regression

THREE, TWO, FLAGS = Classes(values=("a", "b", "c")), Binary(), Multilabel(values=("a", "b", "c"))


class Own(keras.Model):
    """A subclass, whose layers nobody sees."""

    def __init__(self, activation):
        super().__init__()
        self.last = layers.Dense(3, activation)

    def call(self, inputs):
        return self.last(inputs)


def dense(units, activation=None):
    return layers.Dense(units, activation)


def nested(inputs):
    inner = keras.Sequential([keras.Input((NUM_INPUTS,)), layers.Dense(3, "softmax")])
    return inner(inputs)


def mean_of_two(inputs):
    return layers.Average()([layers.Dense(3, "softmax")(inputs) for _ in range(2)])


def mixture(inputs):
    first, second = (layers.Dense(1, "sigmoid")(inputs) for _ in range(2))
    return 0.3 * first + 0.7 * second


def sum_of_two(inputs):
    return layers.Dense(1)(inputs) + layers.Dense(1)(inputs)


def own_loss(truth, predicted):
    return keras.ops.mean(keras.ops.abs(truth - predicted), axis=-1)


def own_logits(truth, predicted):
    return keras.ops.mean(keras.ops.abs(truth - predicted), axis=-1)


own_logits.from_logits = True
LOGITS = losses.SparseCategoricalCrossentropy(from_logits=True)


@pytest.mark.parametrize(
    ("label", "make", "loss", "has_logits", "is_guess"),
    [
        (THREE, dense(3), None, *"TF"),
        (THREE, dense(3, "softmax"), None, *"FT"),
        (THREE, nested, None, *"FT"),
        (THREE, lambda x: layers.Activation("softmax", dtype="float32")(dense(3)(x)), None, *"FT"),
        (THREE, lambda x: layers.Reshape((3,))(layers.Softmax()(dense(3)(x))), None, *"FT"),
        (THREE, lambda x: keras.ops.softmax(dense(3)(x)), None, *"FT"),
        (THREE, mean_of_two, None, *"FT"),
        (THREE, Own("softmax"), None, *"FT"),
        (THREE, Own(None), None, *"TF"),
        (TWO, dense(1, "sigmoid"), None, *"FT"),
        (TWO, mixture, None, *"FT"),
        (TWO, sum_of_two, None, *"TF"),
        (FLAGS, dense(3, "sigmoid"), None, *"FT"),
        (TWO, dense(1), "mse", *"FF"),
        (THREE, dense(3, "softmax"), "sparse_categorical_crossentropy", *"FF"),
        (THREE, dense(3, "softmax"), LOGITS, *"FT"),
        (THREE, dense(3), LOGITS, *"TF"),
        (TWO, dense(1), own_loss, *"TT"),
        (TWO, dense(1, "sigmoid"), own_loss, *"FT"),
        (TWO, dense(1, "tanh"), own_logits, *"TF"),
        (Regression(), dense(1), None, *"FF"),
    ],
)
def test_the_kind_of_the_outputs_is_seen(label, make, loss, has_logits, is_guess):
    inputs = keras.Input((NUM_INPUTS,))
    model = make if isinstance(make, keras.Model) else keras.Model(inputs, make(inputs))
    if isinstance(make, keras.Model):
        make(inputs)
    if loss is not None:
        model.compile("adam", loss)
    kind = output_kind(model, Tiny(label))
    assert (kind.has_logits, kind.is_guess) == (has_logits == "T", is_guess == "T")


def test_a_loss_of_probabilities_on_a_linear_layer_is_refused():
    inputs = keras.Input((NUM_INPUTS,))
    model = keras.Model(inputs, layers.Dense(1)(inputs))
    model.compile("adam", "binary_crossentropy")
    with pytest.raises(ConfigError, match=r"Dense, is linear.*from_logits=True"):
        output_kind(model, Tiny(TWO))
