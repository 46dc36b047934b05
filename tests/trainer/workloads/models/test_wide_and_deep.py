"""Embeddings of texts and lists, for any number of tokens."""

import keras
import numpy as np
import pytest

from trainer.workloads.models.wide_and_deep import build_wide_and_deep, combine, sum_embeddings


@pytest.mark.parametrize(
    ("is_scaled", "expected"), [(True, [2, 1, 0]), (False, [4, 1, 0])], ids=["scaled", "linear"]
)
def test_more_telling_words_weigh_more(is_scaled, expected):
    ones = keras.layers.Embedding(3, 1, embeddings_initializer="ones")
    tokens = keras.ops.convert_to_tensor([[1, 2, 2, 1], [2, 0, 0, 0], [0, 0, 0, 0]], "int32")
    found = sum_embeddings(tokens, ones, is_scaled=is_scaled)
    np.testing.assert_allclose(np.ravel(found), expected)


def test_every_input_is_in_the_linear_model_and_in_the_net():
    model = build_wide_and_deep(
        categories=(3, 4),
        crosses=(5,),
        num_amounts=2,
        edges=((), ()),
        tokens={"words": (6, 7)},
        images={},
        num_outputs=1,
        hidden_units=(8,),
        embedding_size=2,
        batch_norm=False,
    )
    shapes = sorted(tuple(weight.shape) for weight in model.weights)
    embedded = {"categories": (7, 2), "words": (6, 2)}
    linear = {"categories": (7, 1), "pairs": (5, 1), "words": (6, 1)}
    deep_inputs = 2 * 2 + 2 + 2  # the embeddings of two categories, two amounts, and of the words
    net = [(deep_inputs, 8), (8,), (8, 1), (1,)]
    assert shapes == sorted([*embedded.values(), *linear.values(), *net])


def test_combine_within_the_call_of_a_class_is_refused_with_where_to_call_it():
    class Net(keras.Model):
        def call(self, inputs):
            return combine(inputs)

    size = keras.Input((1,))
    color = keras.Input((), dtype="int32")
    with pytest.raises((ValueError, RuntimeError), match=r"call it in model\(inputs\)"):
        Net()({"size": size, "color": color})
