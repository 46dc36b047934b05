"""Embeddings of texts and lists, for any number of tokens."""

import keras
import numpy as np
import pytest

from trainer.workloads.models.wide_and_deep import sum_embeddings


@pytest.mark.parametrize(
    ("is_scaled", "expected"), [(True, [2, 1, 0]), (False, [4, 1, 0])], ids=["scaled", "linear"]
)
def test_more_telling_words_weigh_more(is_scaled, expected):
    ones = keras.layers.Embedding(3, 1, embeddings_initializer="ones")
    tokens = keras.ops.convert_to_tensor([[1, 2, 2, 1], [2, 0, 0, 0], [0, 0, 0, 0]], "int32")
    found = sum_embeddings(tokens, ones, is_scaled=is_scaled)
    np.testing.assert_allclose(np.ravel(found), expected)
