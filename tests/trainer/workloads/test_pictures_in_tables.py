"""A table's pictures beside its other features: examples, inputs of models and requests."""

import base64
import io

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image as Picture

from tests.support.data.encoded_tables import make_example
from trainer.workloads import Classes, Image, ImageFolder, Number, Regression, Table
from trainer.workloads.description import describe, read_description

SIZE = (6, 4)
WHITE = 255
SQUARE = (40, 40)
MODES = {"JPEG": "L", "WEBP": "RGB"}


def table(channels: int = 3, more=(), **options) -> Table:
    photo = Image("photo", size=SIZE, channels=channels)
    options = {"label": Classes("kind", values=("a", "b")), **options}
    return Table([photo, *more], **options, name="t")


def pixels(channels: int = 3, value: int = 90) -> np.ndarray:
    return np.full((*SIZE, channels), value, np.uint8)


def file_of(image: np.ndarray, kind: str = "PNG", mode: str = "RGB", size=SIZE) -> dict:
    """Return an image as a request has its file."""
    file = io.BytesIO()
    picture = Picture.fromarray(image).convert(mode).resize(size[::-1])
    picture.save(file, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return {"b64": base64.b64encode(file.getvalue()).decode()}


@pytest.mark.parametrize(
    ("kind", "mode", "size"),
    [
        ("PNG", "RGB", SIZE),
        ("PNG", "L", SIZE),
        ("PNG", "RGBA", (30, 20)),
        ("WEBP", "RGB", (13, 17)),
        ("BMP", "RGB", SIZE),
    ],
)
def test_a_request_has_a_picture_file_of_any_kind_and_size(kind, mode, size):
    features = table().parse_instance({"photo": file_of(pixels(), kind, mode, size)})
    np.testing.assert_array_equal(features["photo"], pixels())


def padded(image: Picture.Image, kind: str, num_bytes: int) -> dict:
    """Return an image's file of this size, as a request has it: the bytes behind it are ignored."""
    file = io.BytesIO()
    image.save(file, kind)
    data = file.getvalue().ljust(num_bytes, b"\0")
    assert len(data) == num_bytes
    return {"b64": base64.b64encode(data).decode()}


@pytest.mark.parametrize("num_bytes", [1_599, 1_600, 1_601])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_a_file_with_as_many_bytes_as_pixels_is_no_raw_pixels(kind, num_bytes):
    sent = padded(Picture.new("1", SQUARE, 0).convert(MODES.get(kind, "1")), kind, num_bytes)
    square = Table([Image("photo", size=SQUARE, channels=1)], label=Regression("y"), name="t")
    folder = ImageFolder(size=SQUARE, channels=1)
    assert square.parse_instance({"photo": sent})["photo"].max() == 0
    assert folder.parse_instance({"image": sent})["image"].max() == 0


@pytest.mark.parametrize("num_bytes", [3_199, 3_200, 3_201])
def test_a_noisy_picture_of_12_bits_is_a_file_of_any_size(num_bytes):
    noise = np.random.default_rng(4).integers(0, 4_096, (40, 80), np.uint16)
    noise[:, 40:] = 4_095  # which a PNG has in few bytes
    photo = Image("photo", size=(40, 80), channels=1, white=4_095)
    table = Table([photo], label=Regression("y"), name="t")
    features = table.parse_instance({"photo": padded(Picture.fromarray(noise), "PNG", num_bytes)})
    np.testing.assert_array_equal(features["photo"], noise.astype(int) * 255 // 4_095)


def test_raw_pixels_may_begin_with_two_letters_but_not_as_a_file():
    table = Table([Image("photo", size=SQUARE, channels=1)], label=Regression("y"), name="t")
    image = np.full(SQUARE, 77, np.uint8)
    image[0, 0] = 66  # BM, as a BMP
    sent = {"b64": base64.b64encode(image.tobytes()).decode()}
    np.testing.assert_array_equal(table.parse_instance({"photo": sent})["photo"], image)
    image[0, :3] = 255, 216, 255
    sent = {"b64": base64.b64encode(image.tobytes()).decode()}
    with pytest.raises(
        ValueError, match=r"photo: .* a JPEG file: .*; send raw pixels .* as a list"
    ):
        table.parse_instance({"photo": sent})
    sent = {"photo": image.tolist()}
    np.testing.assert_array_equal(table.parse_instance(sent)["photo"], image)


def test_transparent_pixels_are_white_as_in_preparing():
    clear = np.concatenate([pixels(), np.zeros((*SIZE, 1), np.uint8)], axis=-1)
    features = table().parse_instance({"photo": file_of(clear, mode="RGBA")})
    assert (features["photo"] == WHITE).all()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_formatted_instance_is_parsed_to_the_same_pixels(channels):
    workload = table(channels, [Number("age")])
    image = np.arange(np.prod(SIZE) * channels, dtype=np.uint8).reshape(workload.used[0].shape)
    raw = {"photo": image, "age": np.float32(4.5)}
    for form in workload.wire_forms(raw).values():
        features = workload.parse_instance(form)
        np.testing.assert_array_equal(features["photo"], image)
        assert features["age"] == 4.5
    nested = workload.parse_instance({"photo": image.tolist(), "age": None})
    np.testing.assert_array_equal(nested["photo"], image)
    several = workload.parse_instances([workload.format_instance(raw)] * 3)
    assert several["photo"].shape == (3, *image.shape)


@pytest.mark.parametrize(
    ("instance", "problem"),
    [
        ({"age": 3}, "'photo' is missing: it holds a picture"),
        ({"photo": {"b64": "bm90IGE="}, "age": 3}, "photo: .*neither raw pixels nor an image"),
        ({"photo": [1, 2]}, r"photo: image has shape \(2,\), expected \(6, 4, 3\)"),
    ],
)
def test_a_request_without_a_readable_picture_is_named(instance, problem):
    with pytest.raises(ValueError, match=problem):
        table(more=[Number("age")]).parse_instance(instance)


@pytest.mark.parametrize(
    ("more", "label"),
    [((), Classes("kind", values=("a", "b"))), ([Number("age")], Regression("price"))],
    ids=["picture alone", "price by picture and age"],
)
def test_the_default_model_takes_examples_and_requests_alike(more, label):
    workload = table(more=more, label=label)
    records = tf.constant([make_example({"photo": pixels().tobytes(), "age": 2.5})] * 2)
    features, _ = workload.parse(records)
    columns = {name: values.numpy() for name, values in features.items()}
    if more:
        columns["price"] = np.array([100.0, 300.0], np.float32)
    workload = workload.adapt(columns)
    sent = workload.parse_instance(
        {"photo": file_of(pixels()), "age": 2.5} if more else {"photo": file_of(pixels())}
    )
    np.testing.assert_array_equal(sent["photo"], columns["photo"][0])

    encoded = workload.encode(features)
    noise = tf.random.uniform([2, workload.num_noise])
    assert workload.num_noise == 2
    inputs = workload.preprocess(workload.augment(encoded, noise))
    assert inputs["image_photo"].dtype == tf.float32
    assert float(tf.reduce_max(inputs["image_photo"])) <= 1
    assert workload.build_model()(inputs).shape == (2, len(workload.labels) or 1)
    assert workload.recipe_of().part_size == 0


def test_a_model_of_ones_own_gets_floats_beside_the_other_inputs():
    def model(inputs):
        assert inputs["photo"].shape == (None, *SIZE, 1)
        flat = keras.layers.Flatten()(inputs["photo"])
        both = keras.layers.concatenate([flat, inputs["age"]])
        return keras.Model(inputs, keras.layers.Dense(2)(both))

    workload = table(1, [Number("age", is_required=True)], model=model)
    raw = {"photo": tf.zeros([3, *SIZE], tf.uint8), "age": tf.zeros([3])}
    inputs = workload.preprocess(workload.encode(raw))
    assert workload.build_model()(inputs).shape == (3, 2)


def test_a_served_model_needs_no_code_for_its_pictures():
    workload = table(4, [Number("age")])
    made = read_description(describe(workload))
    assert made.used == workload.used
    assert made.input_specs()["photo"].shape == (None, *SIZE, 4)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"size": 64}, r"photo: size is 64; it must be \(height, width\)"),
        ({"channels": 2}, "photo: channels is 2; it must be 1, 3 or 4"),
        ({"white": 0}, "photo: white is 0; it must be a number above 0, such as 4095"),
        ({"fit": "zoom"}, "photo: fit is 'zoom'; it must be one of stretch, crop, pad"),
    ],
)
def test_a_wrong_picture_is_refused_when_it_is_declared(change, problem):
    with pytest.raises(ValueError, match=problem):
        Table([Image("photo", **change)], label=Classes("kind"))
