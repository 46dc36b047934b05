"""TFRecords that exist already: read once, checked, split and written again."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf

from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records import step
from components.prepare_examples.raw_data.run_files import resolve, run_moment
from components.prepare_examples.settings.options import PrepareOptions
from trainer import Json
from trainer.workloads import Binary, Classes, Multilabel, Regression

FEATURES = {
    "x": tf.io.FixedLenFeature([3], tf.float32),
    "word": tf.io.FixedLenFeature([], tf.string, default_value=""),
    "ids": tf.io.VarLenFeature(tf.int64),
    "image": tf.io.FixedLenFeature([], tf.string),
}
KINDS = {float: "float_list", int: "int64_list", bytes: "bytes_list"}


def example(**values) -> bytes:
    features = {}
    for name, found in values.items():
        if found:
            features[name] = tf.train.Feature(**{KINDS[type(found[0])]: {"value": found}})
    return tf.train.Example(features={"feature": features}).SerializeToString()


def sequence() -> bytes:
    """Return a record whose context alone would be a good example."""
    context = tf.train.Example.FromString(example(x=[1.0, 2.0, 3.0], image=[b"a"], y=[1]))
    frames = {"frames": {"feature": [{"float_list": {"value": [1.0]}}]}}
    return tf.train.SequenceExample(
        context=context.features, feature_lists={"feature_list": frames}
    ).SerializeToString()


def records(count: int = 200, *, start: int = 0, labels=(1, 0)) -> list[bytes]:
    return [
        example(
            x=[float(number), 0.5, -1.0],
            ids=[number % 5, 7][: number % 3],
            image=[b"\xff\xd8" + bytes(300)],
            y=[labels[number % len(labels)]],
            **({"word": [b"odd"]} if number % 2 else {}),
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
def run(tmp_path):
    """Prepare files of records; return the manifest."""

    def do(*files: Path, label=None, features=FEATURES, **options) -> Json:
        workload = SimpleNamespace(
            name="own",
            reference="own",
            label=label or Binary("y"),
            features=features,
            source=None,
            weight="",
        )
        given = PrepareOptions(files=tuple(map(str, files)), **options)
        chosen = resolve(given, run_moment(given))
        folder = tmp_path / "out"
        folder.mkdir(exist_ok=True)
        step.plan(workload, tmp_path, chosen).write(folder)
        return json.loads((folder / "manifest.json").read_text())

    return do


def written(folder: Path, split: str = "*") -> list[bytes]:
    files = sorted(map(str, folder.glob(f"{split}-*.tfrecord.gz")))
    return list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator())


def statistics_of(folder: Path, split: str = "train") -> Json:
    return json.loads((folder / "statistics.json").read_text())["splits"][split]["features"]


def quarantined(folder: Path) -> list[Json]:
    files = sorted(folder.glob("quarantine-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_each_record_is_written_unchanged_to_a_split(tmp_path, run, compression):
    some = records()
    path = write(tmp_path / "all.tfrecord", some, compression=compression)
    manifest = run(path)
    assert manifest["rows"] == {"read": 200, "written": 200, "filtered": 0, "quarantined": 0}
    assert manifest["split_rule"].startswith("by a hash of the record")
    assert sorted(written(tmp_path / "out")) == sorted(some)
    assert manifest["splits"]["train"]["num_examples"] > 120
    for split, found in manifest["splits"].items():
        assert len(written(tmp_path / "out", split)) == found["num_examples"]
        assert sum(shard["num_examples"] for shard in found["shards"]) == found["num_examples"]


def test_a_plain_record_with_a_length_of_gzips_first_bytes_is_read(tmp_path, run):
    [first, *others] = records()
    room = 0x8B1F - len(first)
    for extra in range(room - 20, room):
        long = example(x=[0.0, 0.5, -1.0], image=[b"\xff\xd8" + bytes(300 + extra)], y=[1])
        if len(long) == 0x8B1F:
            break
    assert len(long) == 0x8B1F
    path = write(tmp_path / "all.tfrecord", [long, *others])
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert run(path)["rows"]["written"] == 200
    assert long in written(tmp_path / "out")


def test_the_first_file_may_be_empty_and_the_first_record_without_the_label(tmp_path, run):
    first = example(x=[1.0, 2.0, 3.0], image=[b"a"])
    paths = [write(tmp_path / "a", []), write(tmp_path / "b", [first, *records(labels=(3, 5))])]
    manifest = run(*paths, label=Classes("y"))
    assert (manifest["rows"]["written"], manifest["rows"]["quarantined"]) == (200, 1)


def test_a_folder_stands_for_its_files(tmp_path, run):
    for split, start in {"train": 0, "eval": 1000, "test": 2000}.items():
        name = f"tfx/Split-{split}/data_tfrecord-00000-of-00001.gz"
        write(tmp_path / name, records(60, start=start), compression="GZIP")
    (tmp_path / "tfx/_SUCCESS").touch()
    manifest = run(tmp_path / "tfx")
    assert {name: one["num_examples"] for name, one in manifest["splits"].items()} == dict.fromkeys(
        ("train", "eval", "test"), 60
    )


def test_the_split_of_a_record_does_not_depend_on_its_file(tmp_path, run):
    some = records()
    run(write(tmp_path / "all.tfrecord", some))
    before = set(written(tmp_path / "out", "test"))
    write(tmp_path / "11-21.rec", some[120:])
    write(tmp_path / "11-22.rec", some[:120])
    threads = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")
    of_two_days = {"window": "2d", "run_date": "2026-11-22"}
    run(tmp_path / "{run_date:%m-%d}.rec", beam_options=threads, **of_two_days)
    assert set(written(tmp_path / "out", "test")) == before


def test_statistics_count_values_lists_and_missing_ones(tmp_path, run):
    run(write(tmp_path / "all.tfrecord", records()))
    found = statistics_of(tmp_path / "out")
    assert "image" not in found
    total = found["y"]["num_present"]
    assert found["word"]["num_missing"] + found["word"]["num_present"] == total
    assert found["word"]["top_values"] == [["odd", found["word"]["num_present"]]]
    assert (found["x"]["min_length"], found["x"]["max_length"]) == (3, 3)
    assert found["x"]["min"] == -1
    assert (found["ids"]["min_length"], found["ids"]["max_length"]) == (0, 2)
    assert {value for value, _ in found["y"]["top_values"]} == {0, 1}


@pytest.mark.parametrize(
    "names",
    [
        ("train-00000.tfrecord", "eval.tfrecord", "test_1.tfrecord"),
        ("train/a.rec", "val/a.rec", "test/a.rec"),
        ("Split-train/a.rec", "Split-eval/a.rec", ""),
        ("train.rec", "", "test.rec"),
    ],
)
def test_files_of_splits_decide_them(tmp_path, run, names):
    starts = {"train": 0, "eval": 1000, "test": 2000}
    paths = {}
    for (split, start), name in zip(starts.items(), names, strict=True):
        if name:
            count = 100 if split == "train" else 10
            paths[split] = write(tmp_path / name, records(count, start=start))
    manifest = run(*paths.values())
    assert "by the names of the files" in manifest["split_rule"]
    for split, start in starts.items():
        found = {
            int(tf.train.Example.FromString(one).features.feature["x"].float_list.value[0]) // 1000
            for one in written(tmp_path / "out", split)
        }
        assert found == ({start // 1000} if split in paths else {0})


@pytest.mark.parametrize(
    ("bad", "column", "reason"),
    [
        (example(x=[1.0], image=[b"a"], y=[1]), "x", "1 values instead of 3"),
        (example(image=[b"a"], y=[1]), "x", "is missing"),
        (example(x=[1, 2, 3], image=[b"a"], y=[1]), "x", "is not of the type float32"),
        (example(x=[1.0, float("nan"), 3.0], image=[b"a"], y=[1]), "x", "nan is not a finite"),
        (example(x=[1.0, 2.0, 3.0], image=[b"a"], y=[2]), "y", "2 is not 0 or 1"),
        (example(x=[1.0, 2.0, 3.0], image=[b"a"]), "y", "is missing"),
        (b"no example", "", "is not a tf.train.Example"),
        (sequence(), "", "is a tf.train.SequenceExample"),
    ],
    ids=["short", "missing", "integers", "nan", "label 2", "no label", "no example", "sequence"],
)
def test_a_bad_record_is_quarantined_with_its_reason(tmp_path, run, bad, column, reason):
    some = records()
    first = write(tmp_path / "a.tfrecord", some[:40])
    second = write(tmp_path / "b.tfrecord", [*some[40:50], bad, *some[50:]])
    manifest = run(first, second)
    (entry,) = quarantined(tmp_path / "out")
    assert (entry["file"], entry["column"], entry["row"]) == (str(second), column, 11)
    assert reason in entry["reason"]
    assert manifest["rows"]["quarantined"] == 1
    assert sorted(written(tmp_path / "out")) == sorted(some)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda data: data[:-7], r"record 200: the file ends within it"),
        (lambda data: data[:5000] + b"x" + data[5001:], r"record \d+: its \w+ does not fit"),
        (lambda data: b"a,b\n1,2\n" * 40, r"record 1: its length does not fit.*no TFRecord|not a"),
        (lambda data: gzip.compress(data)[:-20], r"record \d+: Compressed file ended"),
        (lambda data: b"", "has no records"),
    ],
    ids=["truncated", "changed", "text", "truncated gzip", "empty"],
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
    run(write(tmp_path / "all.tfrecord", records(labels=labels)), label=label)
    found = statistics_of(tmp_path / "out")["y"]
    assert {value for value, _ in found["top_values"]} == stored


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
    assert run(path, max_examples=80)["rows"]["read"] == 80
