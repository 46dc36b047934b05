"""Image folders and records that users declare, from raw data to predictions."""

import base64
import io
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from tests.support.data.encoded_tables import make_example
from tests.trainer.support import jobs
from trainer.errors import InstanceError
from trainer.serving.export import export_model, load_predictor
from trainer.workloads import (
    Binary,
    Classes,
    ImageFolder,
    Multilabel,
    Records,
    Regression,
    Values,
)


def train(reference, examples, out, **settings):
    """Train; return the last evaluation."""
    jobs.train(examples, out, workload=reference, batch_size=16, **settings)
    return jobs.read_lines(out, "eval")[-1]


def png(name, size, random):
    """Return a PNG of vertical or horizontal stripes."""
    height, width = size
    stripes = np.arange(width if name == "vertical" else height) // 2 % 2 * 200
    image = np.broadcast_to(stripes if name == "vertical" else stripes[:, None], size)
    noisy = (image + random.integers(0, 50, size)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(noisy).convert("RGB").save(file, "PNG")
    return file.getvalue()


def test_class_folders_become_a_served_model(tmp_path):
    random = np.random.default_rng(3)
    for name in ("vertical", "horizontal"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(120):
            size = tuple(random.integers(14, 19, 2))
            (tmp_path / "data" / name / f"{number}.png").write_bytes(png(name, size, random))
    folder = tmp_path / "stripes"
    folder.mkdir()
    text = "from trainer.workloads import ImageFolder\nworkload = ImageFolder(size=(16, 16))\n"
    (folder / "workload.py").write_text(text)
    options = PrepareOptions(files=[str(tmp_path / "data")])
    prepare(str(folder), output_dir=tmp_path / "examples", options=options)
    metrics = train(
        str(folder), tmp_path / "examples", tmp_path / "out", epochs=6, **{"model.width": 8}
    )
    assert metrics["accuracy"] > 0.9
    (folder / "workload.py").unlink()
    predictor = load_predictor(str(tmp_path / "out/model"))
    sent = [png(name, (16, 16), random) for name in ("vertical", "horizontal")]
    instances = [{"b64": base64.b64encode(data).decode()} for data in sent]
    predictions = predictor.predict([*instances, {"image": [[[0, 0, 0]] * 16] * 16, "key": 1}])
    assert [one["label"] for one in predictions[:2]] == ["vertical", "horizontal"]
    assert predictions[2]["key"] == 1
    larger = {"b64": base64.b64encode(png("vertical", (40, 30), random)).decode()}
    assert len(predictor.predict([larger])[0]["probabilities"]) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 64}, r"size is 64; it must be \(height, width\)"),
        ({"size": (64, 0)}, r"size is \(64, 0\)"),
        ({"channels": 2}, "channels is 2; it must be 1, 3 or 4"),
        ({"fit": "cut"}, "fit is 'cut'; it must be one of stretch"),
        ({"augment_with": max}, "num_noise is 0; say how many random numbers augment_with takes"),
        ({"label": Regression("y")}, r"label: images in class folders have the label Classes"),
    ],
)
def test_a_wrong_image_folder_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        ImageFolder(**change)


def test_an_image_folder_may_have_its_own_model_and_augmentation():
    def model(inputs, *, labels, units=3):
        assert inputs.shape == (None, 4, 6, 1)
        flat = keras.layers.Flatten()(inputs)
        return keras.Model(inputs, keras.layers.Dense(len(labels) + units)(flat))

    folder = ImageFolder(
        (4, 6),
        channels=1,
        label=Classes(values=("a", "b")),
        model=model,
        augment_with=lambda images, noise: images + tf.cast(noise[:, :1, None] * 10, tf.uint8),
        num_noise=1,
    ).with_settings({"units": "5"})
    assert folder.build_model().output_shape == (None, 7)
    images = tf.zeros([2, 4, 6], tf.uint8)
    changed = folder.augment({"image": images}, tf.constant([[0.5], [0.0]]))["image"]
    assert changed.numpy().max(axis=(1, 2)).tolist() == [5, 0]
    assert folder.preprocess({"image": images + 255}).numpy().max() == 1
    assert ImageFolder(augment_with=None).num_noise == 0


RECORDS = """
import keras
import tensorflow as tf
from trainer.workloads import Classes, Records, Values

def encode(features):
    return {"x": features["x"] / 2, "size": tf.cast(tf.strings.length(features["name"]), tf.int32)}

def model(inputs, *, units: int = 8, labels):
    x = keras.layers.concatenate([inputs["x"], keras.layers.Embedding(9, 2)(inputs["size"])])
    x = keras.layers.Dense(units, activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(len(labels))(x))

workload = Records(
    {"x": Values("float32", [3]), "name": tf.io.FixedLenFeature([], tf.string, "none")},
    label=Classes("y"),
    model=model,
    encode_with=encode,
)
"""


def test_records_become_a_served_model(tmp_path):
    random = np.random.default_rng(4)
    folder, data = tmp_path / "points", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    (folder / "workload.py").write_text(RECORDS)
    with tf.io.TFRecordWriter(str(data / "all.tfrecord")) as writer:
        for number in range(600):
            x = random.normal(size=3).tolist()
            name = {"name": "abc"} if number % 2 else {}
            writer.write(make_example({"x": x, "y": 7 if x[0] > 0 else 3, **name}))
    options = PrepareOptions(files=[str(data / "*.tfrecord")])
    prepare(str(folder), output_dir=tmp_path / "examples", options=options)
    settings = {"epochs": 20, "learning_rate": 0.02}
    metrics = train(str(folder), tmp_path / "examples", tmp_path / "out", **settings)
    assert metrics["accuracy"] > 0.9
    (folder / "workload.py").unlink()
    predictor = load_predictor(str(tmp_path / "out/model"))
    [plus, minus] = predictor.predict([{"x": [2, 0, 0]}, {"x": [-2, 0, 0], "name": "abc"}])
    assert (plus["label"], minus["label"]) == ("7", "3")
    with pytest.raises(InstanceError, match="instance 0: x has shape"):
        predictor.predict([{"x": [1]}])


def small(inputs):
    """Return a model of the single input."""
    return keras.Sequential([inputs["x"], keras.layers.Dense(2)])


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        ({}, "the field 'x' is missing"),
        ({"x": [1, 2, 3]}, r"x has shape \(3,\), expected \(2,\)"),
        ({"x": [1, "a"]}, "x is .* it must hold numbers"),
        ({"x": [[1], [2, 3]]}, "x: its lists have different lengths"),
        ({"x": [1, 2], "n": 1.5}, r"n is 1\.5; it must hold whole numbers"),
        ({"x": [1, 2], "n": 2**63}, "n is 9223372036854775808; .* whole numbers of type int64"),
        ({"x": [1, 3.5e38]}, r"x is .* it must hold numbers of type float32"),
        ({"x": [1, 2], "s": 5}, "s: 5 is not a text"),
        ({"x": [1, 2], "s": {"b64": "?"}}, "s: its 'b64' is not base64"),
        ({"x": [1, 2], "z": 5}, "unknown field 'z'"),
    ],
)
def test_an_invalid_record_is_named(instance, message):
    features = {
        "x": Values("float32", [2]),
        "n": Values("int64", (), 7),
        "s": Values("string", (), ""),
    }
    with pytest.raises(ValueError, match=message):
        Records(features, label=Regression("y"), model=small).parse_instance(instance)


def test_the_largest_numbers_of_a_record_are_accepted():
    features = {"x": Values("float32", [2]), "n": Values("int64", [2])}
    records = Records(features, label=Regression("y"), model=small)
    sent = {"x": [3.4028235e38, -3.4028235e38], "n": [2**63 - 1, -(2**63)]}
    found = records.parse_instance(sent)
    assert found["n"].tolist() == sent["n"]
    assert found["x"].tolist() == [np.finfo(np.float32).max, np.finfo(np.float32).min]


def test_a_record_is_sent_and_parsed_as_it_is_stored(tmp_path):
    features = {"x": Values("float32", [2]), "s": Values("string", [2], "é")}
    records = Records(features, label=Multilabel("y", values=("a", "b")), model=small, name="r")
    parsed, labels = records.parse(tf.constant([make_example({"x": [1.0, 2.0], "y": "b"})]))
    assert labels.numpy().tolist() == [[0, 1]]
    row = {name: column.numpy()[0] for name, column in parsed.items()}
    assert row["s"].tolist() == ["é".encode()] * 2
    row["s"][1] = b"\xff"
    sent = json.loads(json.dumps(records.format_instance(row)))
    assert sent == {"x": [1.0, 2.0], "s": ["é", {"b64": "/w=="}]}
    again = records.parse_instance(sent)
    for name, value in row.items():
        np.testing.assert_array_equal(again[name], value)
    assert records.parse_instance({"x": [1, 2]})["s"].tolist() == ["é".encode()] * 2
    model = records.build_model()
    export_model(model, records, str(tmp_path / "model"))
    [one] = load_predictor(str(tmp_path / "model")).predict([sent])
    expected = tf.sigmoid(model({"x": tf.constant([[1.0, 2.0]])}))[0]
    np.testing.assert_allclose(one["probabilities"], expected, rtol=1e-5)


def test_an_example_may_have_any_number_of_labels():
    names = [f"l{number}" for number in range(120)]
    records = Records({"x": Values()}, label=Multilabel("y", values=names), model=small)
    found = [
        make_example({"x": 1.0, "y": labels}) for labels in (names, ["l3", "l3", "other", ""], [])
    ]
    for batch in (found, found[2:]):
        expected = [[1] * 120, [0, 0, 0, 1] + [0] * 116, [0] * 120][-len(batch) :]
        assert records.parse(tf.constant(batch))[1].numpy().tolist() == expected


def test_records_without_a_model_get_a_net_of_numbers_and_texts():
    features = {"x": Values(shape=(3, 2)), "n": Values("int64"), "word": Values("string")}
    records = Records(features, label=Classes("y", values=("a", "b", "c")))
    specs = {
        name: tf.zeros([5, *spec.shape[1:]], spec.dtype)
        for name, spec in records.input_specs().items()
        if name != "word"
    }
    outputs = records.build_model()({**specs, "word": tf.constant(["a", "b", "", "ü", "a"])})
    assert outputs.shape == (5, 3)
    assert np.ptp(outputs.numpy(), axis=0).all(), "texts make a difference"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": {}}, "features must be a dict"),
        ({"features": {"x": 3}}, "x is 3; it must be Values or tf.io.FixedLenFeature"),
        ({"features": {"x": Values("int8")}}, r"x is .*int8.* float32, int64, string"),
        ({"features": {"x": tf.io.VarLenFeature(tf.int64)}}, "x has any number of values"),
        ({"features": {"y": Values()}}, "'y' is the label"),
        ({"augment_with": max}, "num_noise is 0; say how many random numbers augment_with takes"),
    ],
)
def test_wrong_records_are_named(change, message):
    given = {"features": {"x": Values()}, "label": Regression("y"), "model": small, **change}
    with pytest.raises(ValueError, match=message):
        Records(**given)


@pytest.mark.parametrize(
    ("workload", "label"),
    [
        (ImageFolder(class_weights="balanced"), {"names": ["cat", "dog"]}),
        (
            ImageFolder(label=Classes(values=("cat", "dog")), class_weights="balanced"),
            {"names": ["cat", "dog"]},
        ),
        (
            ImageFolder(class_weights="balanced", learn=lambda images: {"mean": 3.0}),
            {"names": ["cat", "dog"]},
        ),
        (Records({"x": Values()}, label=Binary(), model=len, class_weights="balanced"), {}),
    ],
    ids=["folders", "declared", "more is learnt", "records"],
)
def test_balanced_classes_are_those_of_the_train_split(workload, label):
    assert workload.learns
    statistics = {"label": {"top_values": [[0, 30], [1, 10]], "is_exact": True, **label}}
    found = workload.with_statistics(statistics)
    found = found.adapt_to_statistics(statistics) or found.adapt({"image": np.zeros((1, 2, 2, 3))})
    again = workload.with_facts(json.loads(json.dumps(found.facts())))
    assert again == found
    weights = again.example_weights({}, tf.constant([1, 0], tf.int64)).numpy()
    assert weights.tolist() == pytest.approx([2, 2 / 3])
    assert len(again.labels) == 2


def test_images_are_not_mirrored_by_default():
    images = tf.constant(np.arange(2 * 32 * 32 * 3).reshape(2, 32, 32, 3) % 251, tf.uint8)
    noise = tf.fill([2, ImageFolder().num_noise], 0.5)
    augmented = ImageFolder((32, 32)).augment({"image": images}, noise)
    np.testing.assert_array_equal(augmented["image"], images)
