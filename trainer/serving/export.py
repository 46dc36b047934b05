"""The exported model: writing it, loading it and predicting with it."""

import json
import os
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.errors import TrainerError, first_line
from trainer.runtime.tracing import traced
from trainer.workloads import load_workload
from trainer.workloads.base import Workload

DESCRIPTION_FILE = "workload.json"
SIGNATURE = "serving_default"
EXAMPLES_SIGNATURE = "examples"


class InstanceError(ValueError):
    """An invalid prediction instance; the message has its index."""


class Predictor:
    """A loaded model; safe to use from many threads."""

    def __init__(self, loaded: Any, workload: Workload):
        self._loaded = loaded  # keeps the variables alive
        self._predict = loaded.signatures[SIGNATURE]
        self.workload = workload

    def warm_up(self) -> None:
        """Make a first prediction, which is slow."""
        specs = self.workload.input_specs()
        self.predict_batch(
            {
                name: tf.zeros([size or 1 for size in spec.shape], spec.dtype)
                for name, spec in specs.items()
            }
        )

    def predict(self, instances: list[Any]) -> list[dict[str, Any]]:
        """Return a prediction for each instance, with its `key` if it has one."""
        if not instances:
            return []
        outputs = self.predict_batch(self._features(instances))
        predictions = [
            {"class": int(number), "label": label.decode(), "probabilities": row}
            for number, label, row in zip(
                outputs["class"], outputs["label"], outputs["probabilities"].tolist(), strict=True
            )
        ]
        for instance, prediction in zip(instances, predictions, strict=True):
            if isinstance(instance, dict) and "key" in instance:
                prediction["key"] = instance["key"]
        return predictions

    def predict_batch(self, features: dict[str, Any]) -> dict[str, np.ndarray]:
        """Return class, label and probabilities of a batch of raw features."""
        tensors = {name: tf.constant(column) for name, column in features.items()}
        return {name: output.numpy() for name, output in self._predict(**tensors).items()}

    def _features(self, instances: list[Any]) -> dict[str, np.ndarray]:
        rows = [self._parse(index, instance) for index, instance in enumerate(instances)]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    def _parse(self, index: int, instance: Any) -> dict[str, Any]:
        try:
            return self.workload.parse_instance(instance)
        except (ValueError, OverflowError) as error:
            raise InstanceError(f"instance {index}: {error}") from error


class _ServedModel(tf.Module):
    """The graph of the exported model: raw features in, class, label and probabilities out."""

    def __init__(self, workload: Workload, model: Any):
        super().__init__()
        self._variables = [variable.value for variable in model.variables]
        self._labels = tf.constant(workload.labels)
        self._workload, self._model = workload, _Untracked(model)

    def signatures(self) -> dict[str, Any]:
        """Return the concrete functions: for raw features, and for serialized Examples."""
        serialized = tf.TensorSpec([None], tf.string, name="examples")
        return {
            SIGNATURE: traced(self._serve).get_concrete_function(**self._workload.input_specs()),
            EXAMPLES_SIGNATURE: traced(self._serve_examples).get_concrete_function(serialized),
        }

    def _serve(self, **features: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = self._workload.preprocess(self._workload.encode(features))
        logits = self._model.keras(inputs, training=False)
        probabilities = tf.nn.softmax(tf.cast(logits, tf.float32))
        classes = tf.argmax(probabilities, axis=1)
        labels = tf.gather(self._labels, classes)
        return {"class": classes, "label": labels, "probabilities": probabilities}

    def _serve_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        features, _ = self._workload.parse(examples)
        key = tf.io.parse_example(examples, {"key": tf.io.FixedLenFeature([], tf.string, "")})
        return {**self._serve(**features), **key}


class _Untracked:
    """Wrapper that hides a Keras model from tf.saved_model, which would save Keras objects too."""

    def __init__(self, model: Any):
        self.keras = model


def export_model(model: Any, workload: Workload, model_dir: str) -> None:
    """Write the SavedModel to a folder beside `model_dir`, then rename it: never half a model."""
    model_dir = model_dir.rstrip("/")
    # May be on gs://, so only gfile can access it.
    temporary = f"{model_dir}.writing-{os.getpid()}"
    served = _ServedModel(workload, model)
    try:
        tf.saved_model.save(served, temporary, signatures=served.signatures())
        with tf.io.gfile.GFile(f"{temporary}/{DESCRIPTION_FILE}", "w") as file:
            file.write(json.dumps(_describe(workload)))
        _replace_folder(temporary, model_dir)
    finally:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.rmtree(temporary)


def load_predictor(model_dir: str) -> Predictor:
    """Return the predictor of an exported model; TrainerError if it cannot be loaded."""
    path = f"{model_dir.rstrip('/')}/{DESCRIPTION_FILE}"
    try:
        with tf.io.gfile.GFile(path, "r") as file:
            description = json.loads(file.read())
        workload = load_workload(description["workload"]).with_facts(description["facts"])
        return Predictor(tf.saved_model.load(model_dir), workload)
    except (tf.errors.OpError, OSError, ValueError, KeyError, TypeError) as error:
        raise TrainerError(
            f"cannot load a model from {model_dir!r}: {first_line(error)}"
        ) from error


def is_foreign(model_dir: str) -> bool:
    """Return whether the folder holds a SavedModel exported by another program."""
    folder, exists = model_dir.rstrip("/"), tf.io.gfile.exists
    return exists(f"{folder}/saved_model.pb") and not exists(f"{folder}/{DESCRIPTION_FILE}")


def _describe(workload: Workload) -> dict[str, Any]:
    reference = workload.reference or workload.name
    return {"workload": reference, "labels": workload.labels, "facts": workload.facts()}


def _replace_folder(new: str, target: str) -> None:
    old = f"{new}-old"
    if tf.io.gfile.exists(target):
        tf.io.gfile.rename(target, old)
    tf.io.gfile.rename(new, target)
    if tf.io.gfile.exists(old):
        tf.io.gfile.rmtree(old)
