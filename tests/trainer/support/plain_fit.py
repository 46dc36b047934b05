"""The same model trained by Keras' own `fit` and by ours, on the same rows in the same order."""

import functools
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import keras
import numpy as np
import tensorflow as tf

from tests.support.data.encoded_tables import make_example
from tests.trainer.support.jobs import CPU
from tests.trainer.support.tiny import NUM_INPUTS, make_examples
from trainer import loop
from trainer.cluster.tf_config import Cluster
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.examples.batches import Batches
from trainer.training import assembly
from trainer.training.job import make_job
from trainer.training.results import results
from trainer.workloads.declarations.labels import Binary, Classes, Label, Multilabel, Regression
from trainer.workloads.records import Records, Values

# The last batch of an epoch has a single example: fewer than devices.
NUM_TRAIN, NUM_EVAL, BATCH_SIZE = 41, 24, 8
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
        for hook in ("train_begin", "epoch_begin", "epoch_end", "test_begin", "test_end"):
            setattr(self, f"on_{hook}", functools.partial(self._add, hook))

    def _add(self, hook: str, *arguments: Any, logs: Any = None) -> None:
        *epoch, logs = arguments or [logs]
        self.calls.append((f"{hook} {epoch}", dict(logs or {})))

    def on_train_end(self, logs=None):
        self._add("train_end", {})


@dataclass(frozen=True)
class Rows:
    """Examples of a split: inputs, labels as stored in a table, and weights."""

    inputs: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


def make_rows(label: Label, split: str) -> Rows:
    """Return made-up examples whose label follows from their inputs."""
    inputs, labels = make_examples(label, count=NUM_TRAIN + NUM_EVAL)
    weights = np.random.default_rng(5).uniform(0.5, 2, len(labels)).astype(np.float32)
    rows = slice(NUM_TRAIN) if split == "train" else slice(NUM_TRAIN, None)
    return Rows(inputs[rows], labels[rows], weights[rows])


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
    value = rows.labels[row]
    if isinstance(label, Multilabel):
        value = [name for name, is_set in zip("abc", value, strict=True) if is_set]
    else:
        value = value.item()
    weight = rows.weights[row].item()
    return make_example({"x": rows.inputs[row].tolist(), "weight": weight, "label": value})


def fit(case: Case) -> Outcome:
    """Train by `fit`, in batches of the rows in our order."""
    keras.utils.set_random_seed(0)
    model = case.build({"x": keras.Input((NUM_INPUTS,), name="x")})
    rows, validation = make_rows(case.label, "train"), make_rows(case.label, "eval")
    columns, epochs = _columns(case, rows), []
    for epoch in range(case.epochs):
        steps = epoch * BATCHES.per_epoch + tf.range(BATCHES.per_epoch)
        order = tf.reshape(BATCHES.rows(steps), [-1])[:NUM_TRAIN].numpy()
        shuffled = keras.tree.map_structure(lambda column: column[order], columns)  # noqa: B023
        epochs.append(tf.data.Dataset.from_tensor_slices(shuffled).batch(BATCH_SIZE))
    data = functools.reduce(tf.data.Dataset.concatenate, epochs)
    calls = Calls()
    model.run_eagerly = True  # of few steps most of the time would be the tracing
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
    case: Case,
    folder: Path,
    examples_dir: Path,
    *,
    num_devices: int = 1,
    num_pieces: int = 1,
    **settings: Any,
) -> Outcome:
    """Train by ours, in this process; the weights are in as many pieces as on several servers."""
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

    def assemble(job: Any, *, devices: Sequence[str], **options: Any) -> Any:
        return assembly.assemble(job, devices=[*devices] * num_pieces, **options)

    with (
        patch.object(loop, "assemble", assemble),
        patch.object(results, "export_model", lambda model, *_, **__: exported.append(model)),
    ):
        loop.train_synchronously(job, [CPU] * num_devices)
    return Outcome(_variables(exported[0]), calls.calls)


def _variables(model: Any) -> list[np.ndarray]:
    return [variable.numpy() for variable in model.variables if "seed" not in variable.path]
