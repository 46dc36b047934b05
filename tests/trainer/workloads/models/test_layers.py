"""The layers of the fast net, and its facts of the train split."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainer.workloads import load_workload
from trainer.workloads.models.layers import (
    AddViews,
    AverageViews,
    Normalization,
    PartialIdentity,
    PiecewiseLinear,
    Whitening,
    whitening_kernel,
)

RANDOM = np.random.default_rng(3)


def smooth_images(count=64):
    """Return images of mean 0 with correlated neighbouring pixels and channels."""
    rough = RANDOM.normal(size=(count, 12, 12, 3)) + RANDOM.normal(size=(count, 12, 12, 1))
    return (rough[:, :-1, :-1] + rough[:, 1:, 1:] + rough[:, 1:, :-1]).astype(np.float32)


def test_whitened_patches_are_uncorrelated_and_of_equal_spread():
    images = smooth_images()
    kernel = whitening_kernel(images)
    outputs = Whitening(kernel)(images).numpy()
    assert outputs.shape == (64, 10, 10, 24)
    flat = outputs[..., :12].reshape(-1, 12)
    np.testing.assert_allclose(flat.T @ flat / len(flat), np.eye(12), atol=0.01)
    np.testing.assert_allclose(outputs[..., 12:], -outputs[..., :12], atol=1e-5)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_normalization_is_that_of_keras_without_a_scale(policy):
    ours = Normalization(momentum=0.5, dtype=policy)
    theirs = keras.layers.BatchNormalization(momentum=0.5, scale=False, epsilon=1e-3)
    inputs = tf.cast(smooth_images() * 3 + 1, "bfloat16" if policy != "float32" else "float32")
    # The fused operation's variance is that of a sample: a little larger where there are few.
    tolerance = 1e-3 if policy == "float32" else 0.05
    for training in (True, True, False):
        expected = theirs(tf.cast(inputs, tf.float32), training=training)
        answer = tf.cast(ours(inputs, training=training), tf.float32)
        np.testing.assert_allclose(answer, expected, atol=tolerance)
    ours.trainable_variables[0].assign([0.5, 0.0, -0.5])
    moved = tf.reduce_mean(tf.cast(ours(inputs, training=True), tf.float32), axis=[0, 1, 2])
    np.testing.assert_allclose(moved, [4.0, 0.0, -4.0], atol=0.05)


def test_a_model_predicts_the_mean_of_shifted_and_mirrored_views():
    inputs = keras.Input((11, 11, 3))
    weighted = keras.layers.Dense(4)(keras.layers.Flatten()(AddViews()(inputs)))
    model = keras.Model(inputs, AverageViews()(weighted))
    images = smooth_images(5)
    padded = np.pad(images, [(0, 0), (1, 1), (1, 1), (0, 0)], "reflect")
    views = [images, padded[:, :-2, :-2], padded[:, 2:, 2:]]
    views += [view[:, :, ::-1] for view in views]
    expected = np.mean([model(view, training=True) for view in views], axis=0)
    assert model.output_shape == (None, 4)
    np.testing.assert_allclose(model(images), expected, atol=1e-5)


def test_a_convolution_starts_as_a_partial_identity():
    images = smooth_images()
    begun = keras.layers.Conv2D(5, 3, padding="same", kernel_initializer=PartialIdentity())(images)
    np.testing.assert_allclose(begun[..., :3], images, atol=1e-5)
    assert np.asarray(begun[..., 3:]).std() > 0.01
    assert PartialIdentity()((3, 3, 5, 3)).shape == (3, 3, 5, 3)


def test_the_fast_net_whitens_as_its_facts_say_and_trains_no_filter_of_it():
    images = (smooth_images(8).repeat(3, 1).repeat(3, 2)[:, :32, :32] * 20 + 128).clip(0, 255)
    adapted = load_workload("cifar10").adapt({"image": images.astype(np.uint8)})
    again = load_workload("cifar10").with_facts(json.loads(json.dumps(adapted.facts())))
    assert again == adapted
    model = again.build_model("fast")
    fixed = [v for v in model.non_trainable_variables if v.path.endswith("kernel")]
    expected = np.reshape(adapted.facts()["whitening"], (2, 2, 3, 12))
    np.testing.assert_allclose(fixed[0][..., :12], expected, rtol=1e-5)
    logits = model(again.preprocess({"image": images.astype(np.uint8)}), training=False)
    assert logits.shape == (8, 10)
    assert np.isfinite(logits).all()


def test_numbers_rise_from_0_to_1_in_each_of_their_pieces():
    layer = PiecewiseLinear([[0.0, 1.0, 3.0], [], [-1.0, 0.0]])
    outputs = layer(np.array([[2.0, 9.0, -5.0], [-7.0, 9.0, -0.25]], np.float32))
    np.testing.assert_allclose(outputs, [[1, 0.5, 0], [0, 0, 0.75]])
