"""Keras' preprocessing layers: trained, exported, and served from another folder."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from tests.support.data.encoded_tables import make_example
from tests.trainer.support import jobs
from trainer.serving.export import load_predictor
from trainer.training.model.flat_model import build_served_model

WORKLOAD = """
from pathlib import Path

import keras
import tensorflow as tf
from keras import layers
from trainer.workloads import *

METRICS = [keras.metrics.AUC()]  # TensorFlow is initialised while the file is imported
WORDS = ["red", "green", "blue"]
TEXTS = ["a red house", "the green house", "blue and red"]
VOCABULARY = str(Path(__file__).with_name("words.txt"))


def adapted(layer, data):
    layer.adapt(keras.ops.array(data) if not isinstance(data[0], str) else data)
    return layer


def space():
    kind = keras.utils.FeatureSpace
    made = kind(
        {
            "word": kind.string_categorical(num_oov_indices=1),
            "number": kind.float_normalized(),
            "floor": kind.integer_categorical(),
        },
        output_mode="concat",
    )
    rows = {"word": WORDS, "number": [1.0, 4.0, 9.0], "floor": [1, 2, 3]}
    made.adapt(tf.data.Dataset.from_tensor_slices(rows))
    return keras.Model(made.get_inputs(), made.get_encoded_features())


LAYERS = [
    lambda x: layers.StringLookup(
        vocabulary=WORDS, output_mode="one_hot")(x["word"]),
    lambda x: layers.StringLookup(
        vocabulary=VOCABULARY, output_mode="multi_hot")(x["word"]),
    lambda x: adapted(
        layers.StringLookup(output_mode="one_hot"), WORDS)(x["word"]),
    lambda x: layers.IntegerLookup(
        vocabulary=[1, 2, 3], output_mode="one_hot")(x["floor"]),
    lambda x: adapted(
        layers.IntegerLookup(output_mode="one_hot"), [1, 2, 3])(x["floor"]),
    lambda x: adapted(
        layers.TextVectorization(output_mode="tf_idf"), TEXTS)(x["text"]),
    lambda x: layers.GlobalAveragePooling1D()(
        layers.Embedding(6, 4)(layers.TextVectorization(
            output_sequence_length=4, vocabulary=WORDS)(x["text"]))),
    lambda x: layers.Flatten()(layers.Embedding(8, 4)(layers.Hashing(8)(x["word"]))),
    lambda x: layers.HashedCrossing(64, output_mode="one_hot")(
        (x["word"], x["floor"])),
    lambda x: adapted(
        layers.Normalization(), [[1.0], [4.0], [9.0]])(x["number"]),
    lambda x: layers.CategoryEncoding(
        5, output_mode="one_hot")(x["floor"]),
    lambda x: layers.CategoryEncoding(4, output_mode="one_hot")(
        layers.Discretization(bin_boundaries=[2.0, 4.0, 6.0])(x["number"])),
    lambda x: layers.CategoryEncoding(4, output_mode="one_hot")(
        adapted(layers.Discretization(num_bins=4), [1.0, 2.0, 5.0, 9.0])(x["number"])),
    lambda x: space()({name: x[name] for name in ("word", "number", "floor")}),
]


def model(inputs, *, labels):
    parts = [layers.Flatten()(layer(inputs)) for layer in LAYERS]
    return keras.Model(inputs, layers.Dense(len(labels))(layers.Concatenate()(parts)))


workload = Table(
    [
        Number("number", is_required=True),
        Category("word"),
        Category("floor", low=0, high=9),
        Text("text"),
    ],
    label=Classes("kind"),
    model=model,
    raw_inputs=True,
)
"""

ROWS = [
    {"number": 1.5, "word": "red", "floor": 1, "text": "a red house"},
    {"number": 8.0, "word": "blue", "floor": 3, "text": "and green"},
    {"number": 4.0, "word": "unseen", "floor": 4, "text": ""},
]


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """The folder of a workload, and that of prepared examples."""
    folder = tmp_path_factory.mktemp("layers")
    code = folder / "shop"
    code.mkdir()
    (code / "workload.py").write_text(WORKLOAD)
    (code / "words.txt").write_text("red\ngreen\nblue\n")
    lines = ["number,word,floor,text,kind"]
    for count in range(120):
        word = ("red", "green", "blue")[count % 3]
        lines.append(f"{count % 9 + 1},{word},{count % 3 + 1},the {word} house,{'xyz'[count % 3]}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    options = PrepareOptions(files=[str(folder / "rows.csv")])
    prepare(str(code), output_dir=folder / "examples", options=options)
    return code, folder / "examples"


def with_exported_weights(job, folder):
    """Return the job's Keras model, with the weights in a SavedModel."""
    model = build_served_model(job.workload, job.config)
    for variable, value in zip(model.variables, jobs.exported_variables(folder), strict=True):
        variable.assign(value)
    return model


def raw_inputs():
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    kinds = {"number": tf.float32, "floor": tf.int64}
    return {
        name: tf.constant(column, kinds.get(name))[:, tf.newaxis]
        for name, column in columns.items()
    }


def test_every_layer_is_trained_and_served_from_another_folder(examples, tmp_path):
    code, data = examples
    copied = shutil.copytree(code, tmp_path / "shop")
    job = jobs.train(data, tmp_path / "out", workload=str(copied), steps=2)
    model = with_exported_weights(job, tmp_path / "out/model")
    expected = tf.nn.softmax(model(raw_inputs())).numpy()
    assert len(np.unique(expected.round(6), axis=0)) == len(ROWS)
    moved = shutil.copytree(tmp_path / "out/model", tmp_path / "moved")
    shutil.rmtree(tmp_path / "out")
    shutil.rmtree(copied)
    assert str(tmp_path).encode() not in (moved / "saved_model.pb").read_bytes()
    predictions = load_predictor(str(moved)).predict(ROWS)
    np.testing.assert_allclose([one["probabilities"] for one in predictions], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("more", "sizes"),
    [((), {}), (("--all-reduce", "collectives"), {"num_chiefs": 0, "num_ps": 0})],
    ids=["parameter_server", "collectives"],
)
def test_a_cluster_trains_a_table_of_a_file_that_uses_tensorflow_at_its_import(
    start_cluster, examples, tmp_path, more, sizes
):
    code, data = examples
    flags = ["--workload", code, "--examples-dir", data, "--output-dir", tmp_path / "out", *more]
    replicas = start_cluster(*flags, "--batch-size", 16, "--steps", 20, **sizes)
    jobs.expect_end(replicas.values())
    predictions = load_predictor(str(tmp_path / "out/model")).predict(ROWS)
    assert predictions[0] != predictions[1]


RECORDS = """
from pathlib import Path

import keras
import tensorflow as tf
from trainer.workloads import *

WORDS = ["red", "green", "blue"]
CODES = tf.lookup.StaticVocabularyTable(
    tf.lookup.TextFileInitializer(
        str(Path(__file__).with_name("words.txt")),
        tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER,
    ),
    num_oov_buckets=1,
)
SCALE = keras.layers.Normalization()
SCALE.adapt(keras.ops.array([[1.0], [4.0], [9.0]]))


def encode(features):
    pairs = tf.lookup.KeyValueTensorInitializer(WORDS, [5, 6, 7])
    local = tf.lookup.StaticHashTable(pairs, 0)
    return {
        "code": CODES.lookup(features["word"]),
        "other": local.lookup(features["word"]),
        "scaled": SCALE(features["number"][:, tf.newaxis]),
    }


def model(inputs, *, labels):
    parts = [
        keras.layers.Embedding(4, 2)(inputs["code"]),
        keras.layers.Embedding(8, 2)(inputs["other"]),
        inputs["scaled"],
    ]
    return keras.Model(inputs, keras.layers.Dense(len(labels))(keras.layers.concatenate(parts)))


workload = Records(
    {"word": Values("string"), "number": Values("float32")},
    label=Classes("kind"),
    encode_with=encode,
    model=model,
)
"""


def test_a_table_of_encode_with_is_served_from_another_folder(tmp_path):
    (code := tmp_path / "shop").mkdir()
    (code / "workload.py").write_text(RECORDS)
    (code / "words.txt").write_text("red\ngreen\nblue\n")
    with tf.io.TFRecordWriter(str(tmp_path / "data.tfrecord")) as writer:
        for count in range(120):
            values = {
                "word": ("red", "green", "blue")[count % 3],
                "number": count % 9 + count / 1000,
                "kind": "xyz"[count % 3],
            }
            writer.write(make_example(values))
    options = PrepareOptions(files=[str(tmp_path / "data.tfrecord")])
    prepare(str(code), output_dir=tmp_path / "examples", options=options)
    job = jobs.train(tmp_path / "examples", tmp_path / "out", workload=str(code), steps=2)
    moved = (tmp_path / "out/model").rename(tmp_path / "moved")
    code.rename(tmp_path / "gone")
    rows = [{"word": word, "number": 4.0} for word in ("red", "blue", "unseen")]
    predictor = load_predictor(str(moved))
    served = [one["probabilities"] for one in predictor.predict(rows)]
    assert len(np.unique(np.round(served, 6), axis=0)) == len(rows)
    features = {"word": [row["word"] for row in rows], "number": [4.0] * len(rows)}
    inputs = job.workload.preprocess(
        job.workload.encode({name: tf.constant(column) for name, column in features.items()})
    )
    model = with_exported_weights(job, moved)
    np.testing.assert_allclose(served, tf.nn.softmax(model(inputs)), atol=1e-6)
