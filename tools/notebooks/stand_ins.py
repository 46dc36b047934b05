"""Stand-ins for the public objects that the notebooks read: their names and form, own content.

Usage: python stand_ins.py FOLDER, which becomes a folder of buckets.
"""

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
    save_cifar(root / "tensorflow-datasets")


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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
