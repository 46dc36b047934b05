"""Stand-ins for the public objects that the notebooks read: their names and form, own content.

Usage: python stand_ins.py FOLDER, which becomes a folder of buckets.
"""

import json
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image
from sklearn.datasets import load_iris

SAMPLES = "cloud-samples-data/"
PENGUIN = {
    "island": tf.string,
    "culmen_length_mm": tf.float32,
    "culmen_depth_mm": tf.float32,
    "flipper_length_mm": tf.float32,
    "body_mass_g": tf.float32,
    "sex": tf.string,
}
random = np.random.default_rng(0)


def main(root: Path) -> None:
    """Write all stand-ins."""

    def path(name: str) -> Path:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        return root / name

    path("ml-pipeline-playground/shakespeare1.txt").write_text("To be, or not to be\n")
    iris = load_iris(as_frame=True)
    iris.data.to_csv(path(SAMPLES + "ai-platform/iris/iris_data.csv"), index=False)
    iris.target.to_csv(path(SAMPLES + "ai-platform/iris/iris_target.csv"), index=False)
    tabular = SAMPLES + "ai-platform-unified/datasets/tabular/"
    engines().to_csv(
        path(tabular + "predictive_maintenance.csv"), sep=" ", header=False, index=False
    )
    for number in range(3):
        pixels = random.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        name = SAMPLES + f"ai-platform-unified/cifar_test_images/image_{number}_{number}.jpg"
        Image.fromarray(pixels).save(path(name))
    models = SAMPLES + "vertex-ai/"
    save_dense(path(models + "prediction/test-models-requests/tensorflow/1").parent)
    penguins = "google-cloud-aiplatform-ci-artifacts/models/penguins/estimator"
    save_penguins(path(models + penguins))
    request = path(models + "prediction/test-models-requests/requests/tensorflow_request.json")
    request.write_text(json.dumps({"instances": [[0.1] * 10]}))
    census().to_csv(
        path(SAMPLES + "ai-platform/sklearn/census_data/adult.data"), header=False, index=False
    )
    fraud = models + "managed_notebooks/fraud_detection/fraud_detection_data.csv"
    payments().to_csv(path(fraud), index=False)
    save_cifar(root / "tensorflow-datasets")
    save_for_keras(root / "keras-datasets")


def census() -> pd.DataFrame:
    """Return rows of adults; a text begins with a blank, as in the original."""
    size = 2000
    texts = {
        1: "Private State-gov",
        3: "11th HS-grad Bachelors",
        5: "Never-married Married-civ-spouse",
        6: "Sales Machine-op-inspct Farming-fishing",
        7: "Own-child Husband",
        8: "Black White",
        9: "Male Female",
        13: "United-States Mexico",
        14: ">50K <=50K",
    }
    columns = {number: random.integers(1, 90, size) for number in range(15)}
    for number, words in texts.items():
        columns[number] = random.choice([f" {word}" for word in words.split()], size)
    return pd.DataFrame(columns)


def payments() -> pd.DataFrame:
    """Return payments, of which large ones are frauds."""
    size = 6000
    amounts = ["amount", "oldbalanceOrg", "newbalanceOrig", "oldbalanceDest", "newbalanceDest"]
    rows = pd.DataFrame(random.gamma(2, 1e4, (size, len(amounts))), columns=amounts)
    rows["step"] = random.integers(1, 700, size)
    rows["type"] = random.choice(["CASH_OUT", "PAYMENT", "TRANSFER", "DEBIT", "CASH_IN"], size)
    rows["nameOrig"], rows["nameDest"] = "C1", "M1"
    rows["isFraud"] = (rows["amount"] > 60000).astype(int)
    rows["isFlaggedFraud"] = (rows["amount"] > 80000).astype(int)
    return rows


def engines() -> pd.DataFrame:
    """Return rows of 20 engines: number, cycle, three settings, 21 measurements, two blanks."""
    rows = [
        [engine, cycle, *random.normal(size=3), *random.normal(cycle, 9, size=21), None, None]
        for engine in range(1, 21)
        for cycle in range(1, 61)
    ]
    return pd.DataFrame(rows)


def save_dense(folder: Path) -> None:
    """Save a model of ten numbers, `dense_input`."""
    module = tf.Module()
    spec = tf.TensorSpec([None, 10], tf.float32, name="dense_input")
    function = tf.function(
        lambda dense_input: {"dense_2": tf.reduce_sum(dense_input, 1, keepdims=True)}, [spec]
    )
    tf.saved_model.save(module, str(folder), {"serving_default": function})


def save_penguins(folder: Path) -> None:
    """Save a model of penguins with an estimator's signature `predict`."""
    module = tf.Module()

    @tf.function
    def predict(**columns: tf.Tensor) -> dict[str, tf.Tensor]:
        mass = columns["body_mass_g"]
        classes = tf.where(mass > 4500, "Gentoo", "Adelie")
        used = tf.strings.length(columns["island"]) + tf.strings.length(columns["sex"])
        size = columns["culmen_length_mm"] + columns["culmen_depth_mm"]
        logits = size + columns["flipper_length_mm"] + tf.cast(used, tf.float32)
        return {"classes": classes, "logits": logits}

    specs = {name: tf.TensorSpec([None], kind, name=name) for name, kind in PENGUIN.items()}
    tf.saved_model.save(module, str(folder), {"predict": predict.get_concrete_function(**specs)})


def save_cifar(folder: Path) -> None:
    """Save 640 pictures as the data set that `tfds.load("cifar10")` downloads otherwise."""
    features = tfds.features.FeaturesDict(
        {
            "id": tfds.features.Text(),
            "image": tfds.features.Image(shape=(32, 32, 3)),
            "label": tfds.features.ClassLabel(num_classes=10),
        }
    )
    pictures = [
        {
            "id": str(number),
            "image": random.integers(0, 256, (32, 32, 3), np.uint8),
            "label": number % 10,
        }
        for number in range(640)
    ]
    data = tf.data.Dataset.from_tensor_slices(
        {name: np.array([picture[name] for picture in pictures]) for name in features}
    )
    tfds.dataset_builders.store_as_tfds_dataset(
        "cifar10",
        "3.0.2",
        features=features,
        split_datasets={"train": data, "test": data},
        data_dir=folder,
    )
    # Also for tensorflow-datasets 4.4 and 1.3, of which a notebook each installs one.
    newest, oldest = folder / "cifar10" / "3.0.2", folder / "cifar10" / "1.0.2"
    info = json.loads((newest / "dataset_info.json").read_text())
    for split in info["splits"]:
        del split["filepathTemplate"]
    (newest / "dataset_info.json").write_text(json.dumps(info))
    shutil.copytree(newest, oldest)
    splits = [
        {"name": split["name"], "numShards": "1", "shardLengths": split["shardLengths"]}
        for split in info["splits"]
    ]
    old = {"name": "cifar10", "version": oldest.name, "splits": splits}
    (oldest / "dataset_info.json").write_text(json.dumps(old))


def save_for_keras(folder: Path) -> None:
    """Save the data sets of `tf.keras.datasets`, which Keras downloads otherwise."""
    (folder / "cifar-10-batches-py").mkdir(parents=True)
    for number in range(1, 7):
        name = "test_batch" if number > 5 else f"data_batch_{number}"
        size = 100 if name == "test_batch" else 1  # Keras repeats one picture 10,000 times
        pixels = random.integers(0, 256, (size, 3072), np.uint8)
        batch = {b"data": pixels, b"labels": [row % 10 for row in range(size)]}
        (folder / "cifar-10-batches-py" / name).write_bytes(pickle.dumps(batch))
    np.savez(folder / "boston_housing.npz", x=random.random((506, 13)), y=random.random(506) * 50)
    digits = {
        f"{kind}_{part}": random.integers(0, high, (600, *shape), np.uint8)
        for kind, high, shape in (("x", 256, (28, 28)), ("y", 10, ()))
        for part in ("train", "test")
    }
    np.savez(folder / "mnist.npz", **digits)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
