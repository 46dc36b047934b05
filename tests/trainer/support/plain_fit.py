"""The same model trained by Keras' own `fit` and by ours, on the same rows in the same order."""

import functools
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer.cluster.tf_config import Cluster
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.examples.batches import Batches, batch_rows
from trainer.loop import train_synchronously
from trainer.training.job import make_job
from trainer.training.results import results as results_module
from trainer.workloads.declarations.labels import Binary, Classes, Label, Multilabel, Regression
from trainer.workloads.records import Records, Values

# The last batch of an epoch has a single example: fewer than devices.
NUM_INPUTS, NUM_TRAIN, NUM_EVAL, BATCH_SIZE = 5, 41, 24, 8
BATCHES = Batches(size=BATCH_SIZE, num_examples=NUM_TRAIN)
THREE, YES = Classes("label", values=(0, 1, 2)), Binary("label")
FLAGS, NUMBER = Multilabel("label", values=("a", "b", "c")), Regression("label")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model and settings, and what is to be said of them in docs/training.md.

    Attributes:
        says: the values of each argument of `compile` and `fit` that the case shows.
        build: from Keras inputs to a compiled model; for `fit` and for ours.
        targets: the labels as `fit` needs them, from those of our examples.
        callbacks: new callbacks, for each of the two.
        refusal: pattern of the error, if it is refused; "" if the weights are the same.
        parts_refusal: pattern of the error where a batch has parts.
        has_parts: False if the weights differ where a batch has parts.
        compares_calls: False if the logs of callbacks differ.
        writes_files: True if its callbacks write files, in this process only.
        is_other: True if what it shows differs, with the same weights.
        class_weights: for each class.
        weighted: True if the examples have weights.
    """

    says: Mapping[str, Sequence[str]]
    build: Callable[[Any], Any]
    label: Label = THREE
    targets: Callable[[np.ndarray], Any] = lambda labels: labels
    epochs: int = 2
    callbacks: Callable[[], Sequence[Any]] = tuple
    class_weights: Mapping[int, float] = field(default_factory=dict)
    weighted: bool = False
    refusal: str = ""
    parts_refusal: str = ""
    has_parts: bool = True
    compares_calls: bool = True
    is_other: bool = False
    writes_files: bool = False

    @property
    def name(self) -> str:
        """The first of what it shows."""
        return next((f"{argument}: {values[0]}" for argument, values in self.says.items()), "")

    def workload(self, callbacks: Sequence[Any] = ()) -> Records:
        """Return the workload of the case."""
        return Records(
            {"x": Values("float32", [NUM_INPUTS])},
            label=self.label,
            model=self.build,
            weight="weight" if self.weighted else "",
            class_weights=self.class_weights,
            callbacks=callbacks,
            name="plain",
        )


@dataclass(frozen=True)
class Outcome:
    """The variables of a trained model, and the calls of the callbacks with their logs."""

    weights: list[np.ndarray]
    calls: list[tuple[str, dict[str, float]]]


class Calls(keras.callbacks.Callback):
    """Recorder of the calls of hooks, with their logs."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, dict[str, float]]] = []

    def _add(self, name: str, logs: Any) -> None:
        self.calls.append((name, dict(logs or {})))

    def on_train_begin(self, logs=None):
        self._add("train begins", logs)

    def on_epoch_begin(self, epoch, logs=None):
        self._add(f"epoch {epoch} begins", logs)

    def on_epoch_end(self, epoch, logs=None):
        self._add(f"epoch {epoch} ends", logs)

    def on_test_begin(self, logs=None):
        self._add("test begins", logs)

    def on_test_end(self, logs=None):
        self._add("test ends", logs)

    def on_train_end(self, logs=None):
        self._add("train ends", {})


@dataclass(frozen=True)
class Rows:
    """Examples of a split: inputs, labels as stored in a table, and weights."""

    inputs: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


def make_rows(label: Label, split: str) -> Rows:
    """Return made-up examples whose label follows from their inputs."""
    chooser = np.random.default_rng(7)
    slopes = chooser.normal(size=(NUM_INPUTS, max(len(label.names_of_classes()), 1)))
    count = NUM_TRAIN if split == "train" else NUM_EVAL
    chooser = np.random.default_rng(len(split))
    inputs = chooser.normal(size=(count, NUM_INPUTS)).astype(np.float32)
    scores = inputs @ slopes
    labels: np.ndarray = scores.argmax(axis=1).astype(np.int64)
    if isinstance(label, Regression):
        labels = np.abs(scores[:, 0]).astype(np.float32)
    elif isinstance(label, Multilabel):
        labels = (scores > 0).astype(np.float32)
    return Rows(inputs, labels, chooser.uniform(0.5, 2, count).astype(np.float32))


def write_examples(folder: Path, label: Label) -> Path:
    """Write the examples of both splits, as TFRecords with a manifest."""
    splits = {}
    for split in ("train", "eval"):
        rows, path = make_rows(label, split), folder / f"{split}.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for row in range(len(rows.labels)):
                writer.write(_serialize(rows, row, label))
        shard = {
            "file": path.name,
            "num_examples": len(rows.labels),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        splits[split] = {"num_examples": len(rows.labels), "shards": [shard]}
    content = {"workload": "plain", "compression": "", "splits": splits}
    (folder / "manifest.json").write_text(json.dumps(content))
    return folder


def _serialize(rows: Rows, row: int, label: Label) -> bytes:
    example = tf.train.Example()
    features = example.features.feature
    features["x"].float_list.value.extend(rows.inputs[row])
    features["weight"].float_list.value.append(rows.weights[row])
    if isinstance(label, Regression):
        features["label"].float_list.value.append(rows.labels[row])
    elif isinstance(label, Multilabel):
        names = [name for name, is_set in zip("abc", rows.labels[row], strict=True) if is_set]
        features["label"].bytes_list.value.extend(name.encode() for name in names)
    else:
        features["label"].int64_list.value.append(rows.labels[row])
    return example.SerializeToString()


def fit(case: Case) -> Outcome:
    """Train by `fit`, in batches of the rows in our order."""
    keras.utils.set_random_seed(0)
    model = case.build({"x": keras.Input((NUM_INPUTS,), name="x")})
    rows, validation = make_rows(case.label, "train"), make_rows(case.label, "eval")
    columns, epochs = _columns(case, rows), []
    for epoch in range(case.epochs):
        steps = epoch * BATCHES.per_epoch + tf.range(BATCHES.per_epoch)
        order = tf.reshape(batch_rows(BATCHES, steps, seed=0), [-1])[:NUM_TRAIN].numpy()
        shuffled = keras.tree.map_structure(lambda column: column[order], columns)  # noqa: B023
        epochs.append(tf.data.Dataset.from_tensor_slices(shuffled).batch(BATCH_SIZE))
    data = functools.reduce(tf.data.Dataset.concatenate, epochs)
    calls = Calls()
    model.fit(
        data,
        epochs=case.epochs,
        steps_per_epoch=BATCHES.per_epoch,
        validation_data=tf.data.Dataset.from_tensors(_columns(case, validation)),
        class_weight=dict(case.class_weights) or None,
        callbacks=[*case.callbacks(), calls],
        shuffle=False,
        verbose=0,
    )
    return Outcome(_variables(model), calls.calls)


def _columns(case: Case, rows: Rows) -> tuple[Any, ...]:
    columns = {"x": rows.inputs}, case.targets(rows.labels)
    return (*columns, rows.weights) if case.weighted else columns


def train(
    case: Case, folder: Path, examples_dir: Path, *, num_devices: int = 1, **settings: Any
) -> Outcome:
    """Train by ours, in this process."""
    calls, exported = Calls(), []
    config = TrainConfig(
        workload="mnist",
        examples_dir=str(examples_dir),
        epochs=case.epochs,
        batch_size=BATCH_SIZE,
        **settings,
    )
    vars(config)["_workload"] = case.workload([*case.callbacks(), calls])
    folders = resolve_folders(str(folder), {})
    job = make_job(config, Cluster(), folders, threading.Event())
    export, results_module.export_model = results_module.export_model, _keep(exported)
    try:
        train_synchronously(job, ["/device:CPU:0"] * num_devices)
    finally:
        results_module.export_model = export
    return Outcome(_variables(exported[0]), calls.calls)


def _keep(models: list[Any]) -> Callable[..., None]:
    def export_model(model: Any, *_: Any, **_others: Any) -> None:
        models.append(model)

    return export_model


def _variables(model: Any) -> list[np.ndarray]:
    return [variable.numpy() for variable in model.variables if "seed" not in variable.path]
