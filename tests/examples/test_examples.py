"""The examples, on a little data of the form of the real one: from raw files to predictions."""

import gzip
import json
import runpy
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.projects.runs import find_run
from trainer.cluster.tf_config import Cluster
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.workloads import load_workload

import_tensorflow()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

from trainer.loop import train_synchronously  # noqa: E402
from trainer.serving.export import load_predictor  # noqa: E402
from trainer.training.job import make_job  # noqa: E402

pytestmark = pytest.mark.timeout(200)

EXAMPLES = Path(__file__).parents[2] / "examples"
MOST_LINES = 60
RANDOM = np.random.default_rng(11)
STEPS = {"digits": 20}


def write_diabetes(folder: Path) -> None:
    rows = [[50 + n % 30, 1 + n % 2, 20 + n % 15, *RANDOM.uniform(1, 99, 7)] for n in range(120)]
    texts = [" ".join(f"{value:g}" for value in row) for row in rows]
    results = [f"{10 * row[2]:.18e}" for row in rows]
    (folder / "diabetes_data_raw.csv.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
    (folder / "diabetes_target.csv.gz").write_bytes(gzip.compress("\n".join(results).encode()))


def write_classes(path: Path, *, num_columns: int, num_classes: int) -> None:
    rows = [f"120,{num_columns},one,two"]
    for number in range(120):
        label = number % num_classes
        values = RANDOM.uniform(1, 2, num_columns) + 2 * label
        rows.append(",".join(f"{value:.4g}" for value in values) + f",{label}")
    path.write_text("\n".join(rows) + "\n")


def write_digits(folder: Path) -> None:
    lines = []
    for number in range(200):
        pixels = RANDOM.integers(0, 3, 64)
        pixels[6 * (number % 10) : 6 * (number % 10) + 6] = 16
        lines.append(",".join(map(str, [*pixels, number % 10])))
    (folder / "digits.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))


def write_penguins(folder: Path) -> None:
    names = ("culmen_length_mm", "culmen_depth_mm", "flipper_length_mm", "body_mass_g")
    for split, count in (("train", 150), ("eval", 30)):
        path = folder / f"Split-{split}/data_tfrecord-00000-of-00001.gz"
        path.parent.mkdir()
        with tf.io.TFRecordWriter(str(path), "GZIP") as file:
            for number in range(count):
                values = RANDOM.uniform(0, 0.3, 4) + 0.3 * (number % 3)
                features = {
                    name: tf.train.Feature(float_list={"value": [value]})
                    for name, value in zip(names, values, strict=True)
                }
                features["species"] = tf.train.Feature(int64_list={"value": [number % 3]})
                example = tf.train.Example(features={"feature": features})
                file.write(example.SerializeToString())


WRITE: dict[str, Callable[[Path], None]] = {
    "diabetes": write_diabetes,
    "digits": write_digits,
    "penguins": write_penguins,
    "tumours": lambda folder: write_classes(
        folder / "breast_cancer.csv", num_columns=30, num_classes=2
    ),
    "wine": lambda folder: write_classes(folder / "wine_data.csv", num_columns=13, num_classes=3),
}


FETCH = runpy.run_path(str(EXAMPLES / "fetch.py"))


def fetch(name: str, folder: Path) -> Path:
    """Return the folder of an example's data, made of files like those of its package."""
    raw = folder / "raw"
    raw.mkdir()
    WRITE[name](raw)
    _, _, members = FETCH["MEMBERS"][name]
    content = {member: (raw / member).read_bytes() for member in members}
    FETCH["convert"](name, content, folder / "data")
    return folder / "data"


def test_every_example_is_tested_and_short():
    assert sorted(WRITE) == sorted(path.parent.name for path in EXAMPLES.glob("*/workload.py"))
    assert sorted(WRITE) == sorted(FETCH["MEMBERS"])
    for path in EXAMPLES.glob("*/*.py"):
        assert len(path.read_text().splitlines()) <= MOST_LINES, path


@pytest.mark.parametrize("name", WRITE)
def test_an_example_learns_and_predicts(name, tmp_path):
    reference = str(EXAMPLES / name)
    run = find_run(reference)
    files = [
        file.replace(f"{EXAMPLES / name}/data", str(fetch(name, tmp_path)))
        for file in run.prepare.files
    ]
    options = PrepareOptions(**{**run.prepare.given(), "files": files})
    manifest = prepare(reference, output_dir=tmp_path / "examples", options=options)
    assert manifest["rows"]["quarantined"] == 0
    if name == "penguins":
        assert manifest["splits"]["eval"]["num_examples"] == 30

    config = TrainConfig(
        workload=reference,
        examples_dir=str(tmp_path / "examples"),
        steps=STEPS.get(name, 200),
        batch_size=32,
    )
    folders = resolve_folders(str(tmp_path / "out"), {})
    job = make_job(config, Cluster(), folders, threading.Event())
    train_synchronously(job, ["/device:CPU:0"])
    lines = (tmp_path / "out/logs/metrics.jsonl").read_text().splitlines()
    metrics = [one for one in map(json.loads, lines) if one["split"] == "eval"][-1]
    assert metrics.get("accuracy", metrics.get("r2")) > 0.9, metrics

    predictor = load_predictor(str(tmp_path / "out/model"))
    records = tf.data.TFRecordDataset(job.eval.paths, "GZIP").batch(1)
    features, labels = predictor.workload.parse(next(iter(records)))
    row = {key: column.numpy()[0] for key, column in features.items()}
    [prediction] = predictor.predict([predictor.workload.format_instance(row)])
    if name == "diabetes":
        assert prediction["value"] == pytest.approx(float(labels[0]), abs=40)
    else:
        assert prediction["class"] == int(labels[0])


def test_the_example_of_a_script_keeps_its_model(tmp_path, monkeypatch):
    fitted, saved = {}, []
    table = fetch("tumours", tmp_path) / "tumours.csv"
    monkeypatch.setattr(sys, "argv", ["before.py", str(table)])
    monkeypatch.setattr(keras.Model, "fit", lambda self, *data, **settings: fitted.update(settings))
    monkeypatch.setattr(keras.Model, "save", lambda self, path: saved.append(path))
    before = runpy.run_path(str(EXAMPLES / "tumours/before.py"))["model"]
    after = load_workload(str(EXAMPLES / "tumours")).build_model()
    assert saved == ["tumours.keras"]
    assert [type(one) for one in after.layers[-3:]] == [type(one) for one in before.layers[-3:]]
    assert after.count_params() == before.count_params()
    for part in ("optimizer", "loss"):
        configs = [getattr(one, part).get_config() for one in (before, after)]
        assert {**configs[0], "name": ""} == {**configs[1], "name": ""}
    train = find_run(str(EXAMPLES / "tumours")).train
    assert (train.epochs, train.batch_size) == (fitted["epochs"], fitted["batch_size"])
