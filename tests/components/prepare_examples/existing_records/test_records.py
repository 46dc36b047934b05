"""TFRecords that exist already: read once, checked, split and written again."""

import gzip
import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf

from components.prepare_examples.errors import DataError, fail
from components.prepare_examples.existing_records import step
from components.prepare_examples.raw_data.run_files import resolve, run_moment
from components.prepare_examples.settings.options import PrepareOptions
from tests.support.data.examples import make_example
from tests.support.data.prepared import Prepared
from trainer.workloads import Binary, Classes, Multilabel, Regression

FEATURES = {
    "x": tf.io.FixedLenFeature([3], tf.float32),
    "word": tf.io.FixedLenFeature([], tf.string, default_value=""),
    "ids": tf.io.VarLenFeature(tf.int64),
    "image": tf.io.FixedLenFeature([], tf.string),
}
GOOD = {"x": [1.0, 2.0, 3.0], "image": b"a", "y": 1}


def sequence() -> bytes:
    """Return a record whose context alone would be a good example."""
    context = tf.train.Example.FromString(make_example(GOOD))
    frames = {"frames": {"feature": [{"float_list": {"value": [1.0]}}]}}
    return tf.train.SequenceExample(
        context=context.features, feature_lists={"feature_list": frames}
    ).SerializeToString()


def records(count: int = 200, *, start: int = 0, labels=(1, 0)) -> list[bytes]:
    return [
        make_example(
            {
                "x": [float(number), 0.5, -1.0],
                "ids": [number % 5, 7][: number % 3] or None,
                "image": b"\xff\xd8" + bytes(300),
                "y": labels[number % len(labels)],
                "word": "odd" if number % 2 else None,
            }
        )
        for number in range(start, start + count)
    ]


def write(path: Path, some: list[bytes], *, compression: str = "") -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    with tf.io.TFRecordWriter(str(path), compression) as file:
        for record in some:
            file.write(record)
    return path


@pytest.fixture
def run(tmp_path, without_beam):
    """Prepare files of records."""

    def do(*files: Path, label=None, **options) -> Prepared:
        names = {"name": "own", "reference": "own", "weight": "", "source": None}
        workload = SimpleNamespace(label=label or Binary("y"), features=FEATURES, **names)
        given = PrepareOptions(files=tuple(map(str, files)), **options)
        folder = tmp_path / f"out-{next(numbers)}"
        folder.mkdir()
        step.plan(workload, tmp_path, resolve(given, run_moment(given)))(folder, fail)
        return Prepared(folder, json.loads((folder / "manifest.json").read_text()))

    numbers = itertools.count()
    return do


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_each_record_is_written_unchanged_to_a_split(tmp_path, run, compression):
    some = records()
    found = run(write(tmp_path / "all.tfrecord", some, compression=compression))
    assert found.rows == {"read": 200, "written": 200}
    assert found.manifest["split_rule"].startswith("by a hash of the record")
    assert sorted(found.records()) == sorted(some)
    assert found.counts[0] > 120
    for split, part in found.manifest["splits"].items():
        assert len(found.records(split)) == part["num_examples"]
        assert sum(shard["num_examples"] for shard in part["shards"]) == part["num_examples"]


def test_the_first_file_may_be_empty_and_the_first_record_without_the_label(tmp_path, run):
    first = make_example({**GOOD, "y": None})
    paths = [write(tmp_path / "a", []), write(tmp_path / "b", [first, *records(labels=(3, 5))])]
    assert run(*paths, label=Classes("y")).rows == {"read": 201, "written": 200, "quarantined": 1}


def test_the_split_of_a_record_does_not_depend_on_its_file(tmp_path, run):
    some = records()
    before = run(write(tmp_path / "all.tfrecord", some))
    write(tmp_path / "11-21.rec", some[120:])
    write(tmp_path / "11-22.rec", some[:120])
    threads = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")
    of_two_days = {"window": "2d", "run_date": "2026-11-22"}
    after = run(tmp_path / "{run_date:%m-%d}.rec", beam_options=threads, **of_two_days)
    assert {*after.records("test")} == {*before.records("test")}


def test_statistics_count_values_lists_and_missing_ones(tmp_path, run):
    found = run(write(tmp_path / "all.tfrecord", records())).statistics()["features"]
    assert "image" not in found
    total = found["y"]["num_present"]
    assert found["word"]["num_missing"] + found["word"]["num_present"] == total
    assert found["word"]["top_values"] == [["odd", found["word"]["num_present"]]]
    assert (found["x"]["min_length"], found["x"]["max_length"]) == (3, 3)
    assert found["x"]["min"] == -1
    assert (found["ids"]["min_length"], found["ids"]["max_length"]) == (0, 2)
    assert {value for value, _ in found["y"]["top_values"]} == {0, 1}


@pytest.mark.parametrize(
    ("names", "is_folder"),
    [
        (("train-00000.tfrecord", "eval.tfrecord", "test_1.tfrecord"), False),
        (("train/a.rec", "val/a.rec", "test/a.rec"), False),
        (("Split-train/a.rec", "Split-eval/a.rec", ""), False),
        (("train.rec", "", "test.rec"), False),
        (("Split-train/data_tfrecord-00000-of-00001.gz", "Split-eval/b.gz", "Split-test/c"), True),
    ],
)
def test_files_of_splits_decide_them(tmp_path, run, names, is_folder):
    paths = []
    for number, name in enumerate(names):
        if name:
            some = records(10 if number else 100, start=1000 * number)
            path = tmp_path / "tfx" / name
            paths.append(write(path, some, compression="GZIP" if is_folder else ""))
    (tmp_path / "tfx/_SUCCESS").touch()
    found = run(*([tmp_path / "tfx"] if is_folder else paths))
    assert "by the names of the files" in found.manifest["split_rule"]
    thousands = [{x // 1000 for x in some} for some in found.splits("x")]
    assert thousands == [{number if name else 0} for number, name in enumerate(names)]


@pytest.mark.parametrize(
    ("bad", "column", "reason"),
    [
        ({"x": 1.0}, "x", "1 values instead of 3"),
        ({"x": None}, "x", "is missing"),
        ({"x": [1, 2, 3]}, "x", "is not of the type float32"),
        ({"x": [1.0, float("nan"), 3.0]}, "x", "nan is not a finite"),
        ({"y": 2}, "y", "2 is not 0 or 1"),
        ({"y": None}, "y", "is missing"),
        (b"no example", "", "is not a tf.train.Example"),
        pytest.param(sequence(), "", "is a tf.train.SequenceExample", id="sequence"),
    ],
)
def test_a_bad_record_is_quarantined_with_its_reason(tmp_path, run, bad, column, reason):
    some, bad = records(), bad if isinstance(bad, bytes) else make_example(GOOD | bad)
    first = write(tmp_path / "a.tfrecord", some[:40])
    second = write(tmp_path / "b.tfrecord", [*some[40:50], bad, *some[50:]])
    found = run(first, second)
    (entry,) = found.quarantine
    assert (entry["file"], entry["column"], entry["row"]) == (str(second), column, 11)
    assert reason in entry["reason"]
    assert found.rows == {"read": 201, "written": 200, "quarantined": 1}
    assert sorted(found.records()) == sorted(some)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda data: data[:-7], r"record 200: the file ends within it"),
        (lambda data: data[:5000] + b"x" + data[5001:], r"record \d+: its \w+ does not fit"),
        (lambda data: b"a,b\n1,2\n" * 40, r"record 1: its length does not fit.*no TFRecord|not a"),
        (lambda data: gzip.compress(data)[:-20], r"record \d+: Compressed file ended"),
        (lambda data: b"", "has no records"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, run, damage, problem):
    path = write(tmp_path / "all.tfrecord", records())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=rf"all\.tfrecord.*{problem}"):
        run(path)


@pytest.mark.parametrize(
    ("label", "labels", "stored"),
    [
        (Classes("y"), (3, 5, 7), {3, 5, 7}),
        (Classes("y"), (b"oak", b"elm"), {"oak", "elm"}),
        (Regression("y"), (0.5, 2.0), {0.5, 2.0}),
        (Multilabel("y"), (b"a", b"b"), {"a", "b"}),
    ],
)
def test_each_kind_of_label_is_taken(tmp_path, run, label, labels, stored):
    found = run(write(tmp_path / "all.tfrecord", records(labels=labels)), label=label)
    top_values = found.statistics()["features"]["y"]["top_values"]
    assert {value for value, _ in top_values} == stored


@pytest.mark.parametrize(
    ("label", "labels", "problem"),
    [
        (Binary("y"), (1,), r"y is 1 in all"),
        (Classes("z"), (1, 2), r"no label 'z'; it has ids, image, .*y|no label 'z'; it has image"),
        (Regression("y"), (1, 2), r"100.0%.*y 200 .*is not of the type float32"),
        (Classes("y", values=(1, 2)), (1, 2, 9), r"9 is not a class; allowed: 1, 2"),
    ],
)
def test_a_label_that_cannot_be_learnt_is_an_error(tmp_path, run, label, labels, problem):
    path = write(tmp_path / "all.tfrecord", records(labels=labels))
    with pytest.raises(DataError, match=problem):
        run(path, label=label)


def test_only_the_first_records_are_used_on_request(tmp_path, run):
    path = write(tmp_path / "all.tfrecord", records())
    assert run(path, max_examples=80).rows["read"] == 80
