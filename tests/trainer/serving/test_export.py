"""Exported models: replacement of an old model, predictions, and errors about instances."""

import base64
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.data.encoded_tables import make_example
from tests.support.data.files import flipped
from trainer import paths
from trainer.errors import InstanceError, TrainerError
from trainer.serve import load_ready_predictor
from trainer.serving.digests import DIGESTS_FILE, check_files
from trainer.serving.export import (
    as_predictions,
    export_model,
    load_predictor,
)
from trainer.workloads import load_workload
from trainer.workloads.encoding.image_files import encode_png

MNIST = load_workload("mnist")


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """An untrained model, and the folder that it is exported to."""
    model, folder = MNIST.build_model(), tmp_path_factory.mktemp("exported") / "model"
    export_model(model, MNIST, str(folder))
    return model, folder


@pytest.fixture(scope="module")
def exported(untrained):
    """The folder of an untrained model."""
    return untrained[1]


@pytest.fixture(scope="module")
def predictor(exported):
    return load_predictor(str(exported))


def test_a_failed_export_leaves_the_old_model(untrained, tmp_path, monkeypatch):
    model, exported = untrained
    folder = shutil.copytree(exported, tmp_path / "model")

    def fail(*_args, **_options):
        raise OSError("disk full")

    monkeypatch.setattr(tf.io.gfile, "rename", fail)
    with pytest.raises(OSError, match="disk full"):
        export_model(model, MNIST, str(folder))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert load_predictor(str(folder)).predict([[0] * 784])


def test_neither_seeds_of_dropout_nor_earlier_traces_distinguish_equal_models(tmp_path):
    layers = [keras.layers.Flatten(), keras.layers.Dense(10), keras.layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input((28, 28, 1)), *layers])
    [seed] = [variable for variable in model.variables if variable.name == "seed_generator_state"]
    written = []
    for number in (1, 2):
        seed.assign([number, 7])
        export_model(model, MNIST, str(tmp_path / "model"))
        digests = check_files(str(tmp_path / "model"))
        written.append({name: one for name, one in digests.items() if name != "fingerprint.pb"})
    assert written[0] == written[1]


def test_a_serialized_example_is_predicted_by_its_signature_too(predictor):
    image = np.arange(784) % 256
    example = make_example({"image": image.astype(np.uint8).tobytes()})
    sent = {"b64": base64.b64encode(example).decode()}
    [expected] = predictor.predict([{"image": image.tolist()}])
    [found] = predictor.predict([sent], "examples")
    assert found["label"] == expected["label"]
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"])


def test_a_file_with_as_many_bytes_as_pixels_is_predicted_as_a_file(predictor):
    image = np.full((28, 28), 90, np.uint8)
    sent = {"b64": base64.b64encode(encode_png(image).ljust(784, b"\0")).decode()}
    of_file, expected = predictor.predict([{"image": sent}, image.tolist()])
    assert of_file == expected


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        (5, "must be a list of pixels"),
        ([[0] * 28] * 27, r"shape \(27, 28\), expected \(28, 28\)"),
        ([[0] * 28] * 27 + [[0]], "rows of different lengths"),
        ([[-1] * 28] * 28, "pixel -1"),
        ([[0.5] * 28] * 28, "pixel 0.5"),
        ([["a"] * 28] * 28, "not a number"),
        ({"key": 1}, "'image' is missing"),
    ],
)
def test_a_bad_instance_is_named(predictor, instance, message):
    with pytest.raises(InstanceError, match=f"instance 1: .*{message}"):
        predictor.predict([[0] * 784, instance])


@pytest.mark.parametrize(
    ("labels", "expected"), [([b"a"], "a"), ([[b"", b"b"]], ["b"]), ([[[b"", b"c"]]], [["", "c"]])]
)
def test_the_labels_of_an_example_are_a_list_and_other_outputs_keep_their_shape(labels, expected):
    outputs = {"value": np.array([1.5]), "labels": np.array(labels, object)}
    assert as_predictions(outputs) == [{"value": 1.5, "labels": expected}]


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(TrainerError, match=r"model from .*nothing"):
        load_predictor(str(tmp_path / "nothing"))


DAMAGES = {"flipped": flipped, "cut": lambda data: data[:-1], "empty": lambda data: b""}


@pytest.mark.parametrize("damage", [*DAMAGES, "removed"])
def test_a_damaged_file_of_a_model_is_an_error_that_says_what_to_do(exported, tmp_path, damage):
    names = [path.relative_to(exported) for path in exported.rglob("*") if path.is_file()]
    assert len(names) == 6
    for name in names:
        folder = shutil.copytree(exported, tmp_path / f"model-{names.index(name)}")
        path = folder / name
        path.write_bytes(DAMAGES[damage](path.read_bytes())) if damage in DAMAGES else path.unlink()
        if str(name) == DIGESTS_FILE and damage == "removed":
            continue
        with pytest.raises(TrainerError, match="copy the model again") as error:
            load_ready_predictor(str(folder))
        assert str(path if str(name) != DIGESTS_FILE else folder) in str(error.value)


def test_a_model_of_an_earlier_version_is_loaded_and_a_warning_says_that_it_is_not_checked(
    exported, tmp_path, caplog
):
    folder = shutil.copytree(exported, tmp_path / "model")
    (folder / DIGESTS_FILE).unlink()
    load_predictor(str(folder))
    [warning] = [record for record in caplog.records if DIGESTS_FILE in record.message]
    assert warning.message.startswith(f"the files of {folder} are not checked: ")


def test_a_damaged_file_in_a_bucket_is_named(exported, monkeypatch):
    monkeypatch.setattr(paths, "BUCKET_SCHEME", "ram://")  # TensorFlow's files in memory
    for path in filter(Path.is_file, exported.rglob("*")):
        with tf.io.gfile.GFile(f"ram://b/{path.relative_to(exported)}", "wb") as file:
            file.write(path.read_bytes())
    assert load_predictor("ram://b").predict([[0] * 784])
    graph = (exported / "saved_model.pb").read_bytes()
    with tf.io.gfile.GFile("ram://b/saved_model.pb", "wb") as file:
        file.write(flipped(graph))
    with pytest.raises(TrainerError, match=r"^ram://b/saved_model.pb differs by its SHA-256"):
        load_ready_predictor("ram://b")
    tf.io.gfile.remove("ram://b/saved_model.pb")
    with pytest.raises(TrainerError, match=r"^ram://b/saved_model.pb is missing"):
        load_ready_predictor("ram://b")
