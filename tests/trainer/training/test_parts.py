"""The parts of the trainer that need TensorFlow, in this process."""

import json
import shutil
import sys
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest

from trainer.cluster.tf_config import Cluster
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.errors import InputError, ReplicaLostError, TrainerError
from trainer.runtime.tensorflow_logs import import_tensorflow, say_nothing_of_lost_servers
from trainer.workloads import load_workload

import_tensorflow()

import tensorflow as tf  # noqa: E402

from trainer.examples.manifest import checked_split, read_manifest  # noqa: E402
from trainer.examples.tables import batch_rows, read_table  # noqa: E402
from trainer.loop import train_in_step  # noqa: E402
from trainer.serving.export import InstanceError, export_model, load_predictor  # noqa: E402
from trainer.strategies.asynchronous import ClusterDriver, _Call  # noqa: E402
from trainer.training import recorder as metrics  # noqa: E402
from trainer.training.checkpoint import list_checkpoints  # noqa: E402
from trainer.training.job import make_job  # noqa: E402
from trainer.training.parameters import Layout, Parameters, Schedule  # noqa: E402
from trainer.training.recorder import Recorder, Totals  # noqa: E402

pytestmark = pytest.mark.timeout(120)
MNIST = load_workload("mnist")


@pytest.mark.parametrize(
    ("num_examples", "batch_size"), [(1, 4), (2, 3), (10, 3), (128, 128), (100, 7)]
)
def test_each_epoch_uses_every_example_once_in_its_own_order(num_examples, batch_size):
    batches = [
        batch_rows(tf.constant(i), batch_size=batch_size, num_examples=num_examples, seed=3)
        for i in range(-(-3 * num_examples // batch_size))
    ]
    rows = np.concatenate([batch.numpy() for batch in batches])[: 3 * num_examples]
    epochs = rows.reshape(3, num_examples)
    for epoch in epochs:
        assert sorted(epoch) == list(range(num_examples))
    if num_examples >= 100:
        assert not np.array_equal(epochs[0], epochs[1])


def test_a_table_holds_all_shards_in_order(examples_dir):
    manifest = read_manifest(str(examples_dir), workload="mnist")
    split = checked_split(manifest, "train")
    features, labels = read_table(split, MNIST, compression="GZIP")
    assert features["image"].shape == (512, 28, 28)
    assert features["image"].dtype == tf.uint8
    assert len(labels) == 512


def break_json(folder):
    (folder / "manifest.json").write_text("{")


def break_counts(folder):
    edit(folder, lambda splits: splits["train"].update(num_examples=9))


def break_file_name(folder):
    edit(folder, lambda splits: splits["train"]["shards"][0].update(file="../x"))


def edit(folder, change):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest["splits"])
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_json, "manifest.json is damaged"),
        (break_counts, "manifest.json is damaged.*9 examples"),
        (break_file_name, "not a file name"),
        (lambda folder: (folder / "manifest.json").unlink(), "manifest.json is missing"),
        (
            lambda folder: (folder / "train-00002-of-00003.tfrecord.gz").unlink(),
            "train-00002-of-00003.tfrecord.gz is missing",
        ),
        (lambda folder: edit(folder, lambda splits: splits.pop("train")), "split 'train'"),
    ],
    ids=["not json", "wrong counts", "path in name", "no manifest", "no shard", "no split"],
)
def test_a_damaged_folder_is_named(examples_dir, tmp_path, damage, message):
    folder = shutil.copytree(examples_dir, tmp_path / "examples")
    damage(folder)
    with pytest.raises(InputError, match=message):
        checked_split(read_manifest(str(folder), workload="mnist"), "train")


def test_too_many_records_for_the_manifest_are_noticed(examples_dir):
    manifest = read_manifest(str(examples_dir), workload="mnist")
    split = manifest.splits["train"]
    fewer = type(split)(name="train", num_examples=500, shards=split.shards)
    with pytest.raises(InputError, match="train-00000-of-00003"):
        read_table(fewer, MNIST, compression="GZIP")


def test_weights_cut_in_pieces_train_as_the_whole():
    initial = tf.random.stateless_normal([11], [1, 2])
    schedule = Schedule(peak=0.1, total_steps=10)
    states = []
    for num_pieces in (1, 3):
        parameters = Parameters(initial, devices=["/device:CPU:0"] * num_pieces)
        for _ in range(4):
            parameters.push(parameters.pull() * 2, schedule)
        states.append(parameters.snapshot())
    whole, pieces = states
    assert int(whole["global_step"]) == 4
    assert not np.allclose(whole["weights"], initial)
    for name, value in whole.items():
        np.testing.assert_allclose(value, pieces[name])


@pytest.mark.parametrize("is_server_lost", [False, True])
def test_sums_that_died_with_their_worker_are_asked_for_again(is_server_lost):
    lost, again, asked = Future(), Future(), []
    lost.set_exception(tf.errors.UnavailableError(None, None, "Socket closed"))
    again.set_result([0.0, 0.0, 0.0, 0.0])

    def schedule(*call):
        asked.append(call)
        return _Call(*call, again)

    driver = object.__new__(ClusterDriver)
    driver._schedule = schedule
    driver._workers = SimpleNamespace(raise_if_lost=lambda: None)
    driver._servers = SimpleNamespace(
        raise_if_lost=lambda: None,
        explain=lambda error: ReplicaLostError("ps/0") if is_server_lost else error,
    )
    if is_server_lost:
        with pytest.raises(tf.errors.UnavailableError):
            driver._sums(_Call(30, 10, 2, lost))
    else:
        assert driver._sums(_Call(30, 10, 2, lost)) == [0.0, 0.0, 0.0, 0.0]
        assert asked == [(30, 10, 2)], "the servers know which of its steps are done"


def test_destructors_say_nothing_of_lost_servers_but_all_else(monkeypatch):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)
    say_nothing_of_lost_servers()

    lost, other = tf.errors.UnavailableError(None, None, "connection refused"), ValueError("bug")
    for error in (lost, other):
        sys.unraisablehook(SimpleNamespace(exc_value=error))
    assert [one.exc_value for one in shown] == [other]


def test_the_schedule_rises_to_its_peak_and_falls_to_nothing():
    schedule = Schedule(peak=2.0, total_steps=100)
    rates = [float(schedule.rate(tf.constant(step))) for step in range(1, 101)]
    assert max(rates) == pytest.approx(2.0, rel=1e-3)
    assert rates[0] < 0.2
    assert rates[-1] == pytest.approx(0, abs=1e-6)
    assert float(schedule.rate(tf.constant(500))) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "warmup", "expected"),
    [
        ("cosine", 0.0, [2.0, 1.0, 0.0]),
        ("linear", 0.0, [2.0, 1.0, 0.0]),
        ("constant", 0.0, [2.0, 2.0, 2.0]),
        ("linear", 0.2, [0.1, 1.25, 0.0]),
        ("constant", 0.2, [0.1, 2.0, 2.0]),
    ],
)
def test_a_schedule_follows_its_kind_after_the_warmup(kind, warmup, expected):
    schedule = Schedule(peak=2.0, total_steps=100, warmup=warmup, kind=kind)
    rates = [float(schedule.rate(tf.constant(step))) for step in (1, 50, 100)]
    assert rates == pytest.approx(expected, abs=0.03)


def train(examples_dir, out, *, stop_after=None, **settings):
    config = TrainConfig(
        workload="mnist", examples_dir=str(examples_dir), batch_size=32, steps=20, **settings
    )
    stop = threading.Event()
    job = make_job(config, Cluster(), resolve_folders(str(out), {}), stop)
    if stop_after:
        stop.set()
    train_in_step(job, ["/device:CPU:0"])
    return load_predictor(str(out / "model"))


def test_a_job_that_was_stopped_ends_with_the_weights_of_one_that_was_not(examples_dir, tmp_path):
    images = tf.cast(tf.random.stateless_uniform([5, 28, 28], [1, 1], 0, 255, tf.int32), tf.uint8)
    whole = train(examples_dir, tmp_path / "whole", steps_per_call=10)
    with pytest.raises(TrainerError, match="step 10 is saved"):
        train(examples_dir, tmp_path / "halves", steps_per_call=10, stop_after=True)
    halves = train(examples_dir, tmp_path / "halves", steps_per_call=10)
    np.testing.assert_allclose(
        whole.predict_batch({"image": images})["probabilities"],
        halves.predict_batch({"image": images})["probabilities"],
        atol=1e-6,
    )


def test_checkpoints_come_by_seconds_when_that_is_asked(examples_dir, tmp_path, monkeypatch):
    half_seconds = (0.5 * count for count in range(1000))
    clock = SimpleNamespace(monotonic=lambda: next(half_seconds))
    monkeypatch.setattr("trainer.training.results.time", clock)

    often = {"checkpoint_every_seconds": 1, "checkpoint_every_steps": 1, "keep_checkpoints": 100}
    train(examples_dir, tmp_path, steps_per_call=1, **often)

    saved = [checkpoint.step for checkpoint in list_checkpoints(str(tmp_path / "checkpoints"))]
    assert saved[:3] == [2, 4, 6], "each step takes half a second of this clock"


def test_fresh_starts_over(examples_dir, tmp_path, caplog):
    caplog.set_level("INFO")
    train(examples_dir, tmp_path)
    train(examples_dir, tmp_path, fresh=True)
    assert "resuming" not in caplog.text
    train(examples_dir, tmp_path)
    assert "resuming from step 20" in caplog.text


def test_a_failed_export_leaves_the_old_model(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    export_model(MNIST.build_model(), MNIST, str(folder))

    def fail(*_args, **_options):
        raise OSError("disk full")

    monkeypatch.setattr(tf.io.gfile, "rename", fail)
    with pytest.raises(OSError, match="disk full"):
        export_model(MNIST.build_model(), MNIST, str(folder))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert load_predictor(str(folder)).predict([[0] * 784])


def test_predictions_carry_class_label_probabilities_and_key(tmp_path):
    model = MNIST.build_model()
    export_model(model, MNIST, str(tmp_path / "model"))
    predictor = load_predictor(str(tmp_path / "model"))
    image = np.arange(784) % 256
    nested, flat = predictor.predict(
        [image.reshape(28, 28).tolist(), {"image": image.tolist(), "key": 5}]
    )
    assert flat.pop("key") == 5
    assert nested == flat
    assert nested["label"] == str(nested["class"])
    inputs = (image / 255).astype(np.float32).reshape(1, 28, 28, 1)
    expected = tf.nn.softmax(model(inputs))[0].numpy()
    np.testing.assert_allclose(nested["probabilities"], expected, atol=1e-6)
    assert Layout(model).size < 70_000


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
        ({"inputs": [0] * 784}, """'inputs' is of an old request; write {"image": …}"""),
    ],
)
def test_a_bad_instance_is_named(tmp_path, instance, message):
    predictor = load_predictor_without_model()
    with pytest.raises(InstanceError, match=f"instance 1: .*{message}"):
        predictor.predict([[0] * 784, instance])


def load_predictor_without_model():
    """A predictor that checks instances but must never be asked."""
    from types import SimpleNamespace

    from trainer.serving.export import Predictor

    return Predictor(SimpleNamespace(signatures={"serving_default": None}), MNIST)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(TrainerError, match=r"model from .*nothing"):
        load_predictor(str(tmp_path / "nothing"))


def test_evaluating_is_no_part_of_the_figures_of_training(tmp_path, monkeypatch):
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time)
    monkeypatch.setattr(metrics, "time", clock)
    recorder = Recorder(str(tmp_path), first_step=0, total_steps=20, every_steps=10)
    for _ in range(2):
        with recorder.apart():
            now[0] += 30
        now[0] += 2
        totals = Totals(steps=10, examples=1000, loss=1.0, correct=500)
        recorder.add(totals, learning_rate=0.1)
    recorder.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["examples_per_second"] for line in lines] == [500, 500]


def test_the_speed_of_workers_is_that_of_their_work_not_of_its_arrival(tmp_path, monkeypatch):
    """Workers do 10 steps a second; the chief evaluates for 3 s, then has 30 steps at once."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time)
    monkeypatch.setattr(metrics, "time", clock)
    recorder = Recorder(
        str(tmp_path),
        first_step=5,
        total_steps=55,
        every_steps=10,
        batch_size=100,
        count_steps=lambda: 5 + int(10 * now[0]),
    )
    for seconds in (1.0, 1.0, 3.0, 1e-3, 1e-3):
        now[0] += seconds
        totals = Totals(steps=10, examples=1000, loss=1.0, correct=500)
        recorder.add(totals, learning_rate=0.1)
    recorder.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [15, 25, 35, 45, 55]
    expected = pytest.approx([1000] * 5, rel=0.01)
    assert [line["examples_per_second"] for line in lines] == expected
    assert [line["step_ms"] for line in lines] == pytest.approx([100] * 5, rel=0.01)
