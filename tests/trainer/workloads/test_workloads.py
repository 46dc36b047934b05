"""Each workload, from examples to predictions for every format of request."""

import base64
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.data.encoded_tables import make_example
from trainer.errors import InstanceError
from trainer.serving.export import export_model, load_predictor
from trainer.workloads import BUILT_IN, load_workload
from trainer.workloads.encoding.images import flip, shift
from trainer.workloads.encoding.lookups import (
    Distribution,
    bucketize,
    number_terms,
)

TRIPS = [
    {"fare": 7.25, "trip_miles": 1.5, "payment_type": "Cash", "pickup_community_area": 8},
    {"fare": 30.0, "trip_miles": 17.0, "trip_seconds": 1500.0, "payment_type": "Credit Card"},
    {"payment_type": "never seen", "trip_start_hour": 23, "company": "Rosé Cabs"},
    {},
]


def image_examples(workload):
    random = np.random.default_rng(2)
    images = random.integers(0, 256, (4, *workload.shape)).astype(np.uint8)
    return [
        make_example({"image": image.tobytes(), "key": f"k{i}"}) for i, image in enumerate(images)
    ]


@pytest.fixture(scope="module", params=sorted(BUILT_IN))
def exported(request, tmp_path_factory):
    """An untrained model: (workload, Keras model, predictor, Examples, folder)."""
    workload = load_workload(request.param)
    if request.param == "taxi":
        examples = [make_example({**trip, "key": f"k{i}"}) for i, trip in enumerate(TRIPS)]
        features, _ = workload.parse(tf.constant(examples * 9))
        workload = workload.adapt({name: column.numpy() for name, column in features.items()})
    else:
        examples = image_examples(workload)
    keras.utils.set_random_seed(1)
    model = workload.build_model()
    folder = tmp_path_factory.mktemp("model") / "model"
    export_model(model, workload, str(folder))
    return workload, model, load_predictor(str(folder)), examples, folder


def test_arrays_examples_and_instances_get_the_models_own_predictions(exported):
    workload, model, predictor, examples, folder = exported
    features, labels = workload.parse(tf.constant(examples))
    assert set(labels.numpy()) == {-1}
    logits = model(workload.preprocess(workload.encode(features)), training=False)
    expected = tf.nn.softmax(logits).numpy()
    of_arrays = predictor.predict_batch(features)
    signature = tf.saved_model.load(str(folder)).signatures["examples"]
    of_examples = signature(examples=tf.constant(examples, tf.string))
    rows = [{name: column.numpy()[i] for name, column in features.items()} for i in range(4)]
    instances = [workload.format_instance(row) for row in rows]
    sent = json.loads(json.dumps(instances, allow_nan=False))
    of_instances = predictor.predict(sent)
    for found in (of_arrays["probabilities"], of_examples["probabilities"]):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose([p["probabilities"] for p in of_instances], expected, atol=1e-5)
    assert [p["label"] for p in of_instances] == [workload.labels[p["class"]] for p in of_instances]
    assert of_examples["key"].numpy().tolist() == [b"k0", b"k1", b"k2", b"k3"]


def test_the_facts_of_the_train_split_are_exported_with_the_model(exported):
    workload, _, predictor, _, _ = exported
    assert predictor.workload.facts() == workload.facts()


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
@pytest.mark.parametrize("kind", ["raw", "png"])
def test_an_image_may_come_as_base64(name, kind):
    workload = load_workload(name)
    image = np.random.default_rng(1).integers(0, 256, workload.shape).astype(np.uint8)
    channels = image if image.ndim == 3 else image[..., np.newaxis]
    data = image.tobytes() if kind == "raw" else tf.io.encode_png(channels).numpy()
    sent = {"b64": base64.b64encode(data).decode()}
    for instance in (sent, {"image": sent, "key": 1}):
        np.testing.assert_array_equal(workload.parse_instance(instance)["image"], image)


@pytest.mark.parametrize(
    ("name", "instance", "message"),
    [
        ("mnist", {"b64": "?"}, "not base64"),
        ("mnist", {"b64": 5}, "not base64"),
        ("mnist", {"b64": "AAAA"}, "neither raw pixels nor an image file"),
        ("cifar10", [[0] * 32] * 32, r"shape \(32, 32\), expected \(32, 32, 3\)"),
        ("taxi", [1], r"must be an object, \{\"fare\": …, .*\}, not list"),
    ],
)
def test_an_invalid_instance_is_named_with_the_reason(name, instance, message):
    with pytest.raises(ValueError, match=message):
        load_workload(name).parse_instance(instance)


def test_an_invalid_instance_is_named_by_its_index(exported):
    _, _, predictor, _, _ = exported
    with pytest.raises(InstanceError, match="instance 0"):
        predictor.predict(["neither image nor trip"])


def test_taxi_trips_are_encoded_as_before_there_was_a_public_api():
    """The numbers are those of version 040a8e0, whose taxi workload was a class of its own."""
    taxi = load_workload("taxi")
    examples = tf.constant([make_example(trip) for trip in TRIPS] * 9)
    features, _ = taxi.parse(examples)
    taxi = taxi.adapt({name: column.numpy() for name, column in features.items()})
    encoded = taxi.encode(taxi.parse(examples[:4])[0])
    assert encoded["pairs"].numpy().tolist() == [
        [711, 6241, 6488, 6506, 6543],
        [0, 6241, 6494, 6509, 6557],
        [0, 6266, 6495, 6514, 6571],
        [0, 6241, 6475, 6500, 6515],
    ]


def test_missing_and_unknown_values_have_separate_numbers():
    numbers = bucketize(
        tf.constant([[np.nan, 9], [-5, 1], [1, -np.inf], [2, 2], [9, 3]]),
        boundaries=[[1.0, 2.0], [2.0]],
    )
    assert numbers.numpy().tolist() == [[0, 3], [2, 2], [3, 0], [4, 3], [4, 3]]
    texts = tf.constant([["", "", ""], ["b", "b", "b"], ["a", "é", "a"], ["é", "a", ""]])
    terms = number_terms(texts, vocabularies=[["a", "b", "é"], ["é", "b"], []])
    assert terms.numpy().tolist() == [[0, 0, 0], [3, 3, 1], [2, 2, 1], [4, 1, 0]]
    one = number_terms(tf.constant(["", "b", "?"]), vocabularies=[["a", "b"]])
    assert one.numpy().tolist() == [0, 3, 1]
    assert number_terms(tf.constant(["", "b"]), vocabularies=[[]]).numpy().tolist() == [0, 1]


def test_boundaries_are_the_quantiles_of_the_known_values():
    values = np.random.default_rng(2).gamma(2, 6, 999).astype(np.float32).round(1)
    for num_buckets in (4, 10, 20):
        quantiles = np.quantile(values, np.linspace(0, 1, num_buckets + 1)[1:-1], method="nearest")
        found = Distribution.of_column(values).boundaries(num_buckets)
        assert found == sorted(set(quantiles.tolist()))
    few = Distribution.of_column(np.array([np.nan, 1, 1, 1, 2], np.float32))
    assert few.boundaries(4) == [1.0]
    none = Distribution.of_column(np.array([np.nan], np.float32))
    assert none.boundaries(4) == []
    assert none.moments(is_logarithmic=True) == [0.0, 1.0]


def test_moments_are_of_the_logarithm_and_never_divide_by_zero():
    values = np.array([0, 1, 1, 7, np.nan], np.float32)
    logs = np.log1p([0, 1, 1, 7])
    found = Distribution.of_column(values).moments(is_logarithmic=True)
    assert found == pytest.approx([logs.mean(), logs.std()])
    constant = Distribution.of_column(np.array([0.3, 0.3, 0.3], np.float32))
    assert constant.moments(is_logarithmic=True) == pytest.approx([np.log1p(0.3), 1.0])


@pytest.mark.parametrize("mode", ["CONSTANT", "REFLECT"])
@pytest.mark.parametrize("max_shift", [0, 2, 4, 5])
def test_every_shift_is_a_window_of_the_padded_image(max_shift, mode):
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (50, 7, 6, 2), np.uint8)
    noise = random.random((50, 2), np.float32)
    padding = [(0, 0), (max_shift, max_shift), (max_shift, max_shift), (0, 0)]
    padded = np.pad(images, padding, mode.lower())
    shifted = shift(tf.constant(images), tf.constant(noise), max_shift=max_shift, mode=mode)
    for image, (row, column), one in zip(shifted, noise, padded, strict=True):
        top, left = int(row * (2 * max_shift + 1)), int(column * (2 * max_shift + 1))
        np.testing.assert_array_equal(image, one[top : top + 7, left : left + 6])


def test_mirroring_follows_the_noise():
    images = tf.reshape(tf.range(2 * 4 * 4 * 3), [2, 4, 4, 3])
    flipped = flip(images, tf.constant([0.2, 0.7])).numpy()
    np.testing.assert_array_equal(flipped[0], images[0, :, ::-1])
    np.testing.assert_array_equal(flipped[1], images[1])


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_augmented_images_keep_their_shape_and_type_and_differ(name):
    workload = load_workload(name)
    random = np.random.default_rng(3)
    images = random.integers(0, 256, (8, *workload.shape)).astype(np.uint8)
    noise = tf.constant(random.random((8, workload.num_noise)), tf.float32)
    found = workload.augment({"image": tf.constant(images)}, noise)["image"]
    assert (found.shape, found.dtype) == (images.shape, tf.uint8)
    assert (found.numpy() != images).any()


@pytest.mark.parametrize(("model", "num_weights"), [("resnet20", 269_722), ("resnet32", 464_154)])
def test_a_resnet_has_as_many_weights_as_in_the_paper(model, num_weights):
    built = load_workload("cifar10").build_model(model)
    assert sum(int(tf.size(v.value)) for v in built.trainable_variables) == num_weights


def test_an_unknown_model_lists_the_known_ones():
    with pytest.raises(ValueError, match="'resnet21' is not a model of cifar10; allowed are fast"):
        load_workload("cifar10").recipe_of("resnet21")
