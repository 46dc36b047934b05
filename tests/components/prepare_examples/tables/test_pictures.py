"""Pictures in a folder that a table names: read with its other columns, and all accounted for."""

import json
import shutil
from pathlib import Path

import pytest
import tensorflow as tf
from PIL import Image

from components.prepare_examples.errors import DataError
from components.prepare_examples.fingerprint import read_input
from components.prepare_examples.prepare import notes, prepare
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.pictures import Pictures
from tests.support.data.picture_tables import SIZE, Rows, write_pictures, write_rows
from tests.support.data.prepared import quarantined
from trainer import Json

WORKLOAD = """
from trainer.workloads import Classes, Image, Number, Table

workload = Table(
    [Image("file", size={size}), Number("weight")], label=Classes("kind"), ignored=["place"],
    {more}
)
"""
FILES = Pictures(
    (
        "/x/train/a.jpg",
        "/x/train/b.PNG",
        "/x/train/v1.2.jpg",
        "/x/train/old/c.jpg",
        "/x/train/new/c.jpg",
        "/x/train/d.jpg",
        "/x/train/d.png",
    )
)


def fingerprint(*workload, **more) -> str:
    return read_input(*workload, **more).fingerprint


@pytest.fixture
def run(tmp_path):
    """Prepare rows, or a file, with the pictures of the folder `photos`."""

    def do(rows: Rows | Path, more: str = 'key="file"', size=SIZE, **options) -> Json:
        folder = tmp_path / "own"
        folder.mkdir(exist_ok=True)
        (folder / "workload.py").write_text(WORKLOAD.format(more=more, size=size))
        table = rows if isinstance(rows, Path) else write_rows(tmp_path / "labels.csv", rows)
        files = (str(table), str(tmp_path / "photos"))
        chosen = PrepareOptions(**{"files": files, "max_quarantine": 0.2, **options})
        return prepare(str(folder), output_dir=tmp_path / "out", data_dir=tmp_path, options=chosen)

    return do


@pytest.fixture
def rows(tmp_path) -> Rows:
    return write_pictures(tmp_path / "photos", 60)


def examples_of(folder: Path) -> dict[str, list[Json]]:
    """Return the features of all examples by split."""
    found: dict[str, list[Json]] = {}
    for path in sorted(folder.glob("*.tfrecord.gz")):
        for record in tf.data.TFRecordDataset([str(path)], "GZIP").as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            found.setdefault(path.name.partition("-")[0], []).append(
                {
                    "pixels": features["file"].bytes_list.value[0],
                    "weight": features["weight"].float_list.value[0],
                    "kind": features["kind"].bytes_list.value[0].decode(),
                }
            )
    return found


@pytest.mark.parametrize(
    ("name", "path"),
    {
        "a": "a.jpg",
        " a.jpg ": "a.jpg",
        "a.JPG": "a.jpg",
        "b.png": "b.PNG",
        "./a.jpg": "a.jpg",
        "train/a": "a.jpg",
        "x\\train\\a.jpg": "a.jpg",
        "/x/train/a.jpg": "a.jpg",
        "v1.2": "v1.2.jpg",
        "old/c": "old/c.jpg",
        "d.png": "d.png",
    }.items(),
)
def test_a_name_may_lack_suffix_and_folder(name, path):
    assert FILES.find(name) == f"/x/train/{path}"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("e", "'e' is the name of no picture"),
        ("a.png", "'a.png' is the name of no picture"),
        ("test/a.jpg", "no picture; /x/train/a.jpg is in another folder"),
        ("../train/a.jpg", "in another folder"),
        ("c.jpg", "the name of 2 pictures, such as /x/train/old/c.jpg and /x/train/new/c.jpg"),
        ("d", "the name of 2 pictures, .*write the folder or the suffix"),
    ],
)
def test_a_name_of_no_picture_or_of_several_is_said(name, reason):
    with pytest.raises(LookupError, match=reason):
        FILES.find(name)


def test_pixels_and_other_columns_are_stored_side_by_side(run, rows, tmp_path):
    manifest = run(rows)
    examples = [one for some in examples_of(tmp_path / "out").values() for one in some]
    expected = {
        (Image.open(tmp_path / f"photos/{row['file']}.png").tobytes(), row["weight"], row["kind"])
        for row in rows
    }
    assert {tuple(one.values()) for one in examples} == expected
    assert len(examples) == 60
    assert "unused" not in manifest
    statistics = json.loads((tmp_path / "out/statistics.json").read_text())
    assert set(statistics["splits"]["train"]["features"]) == {"weight", "kind"}


def test_every_row_and_every_file_is_accounted_for(run, rows, tmp_path):
    photos = tmp_path / "photos"
    (photos / "p001.png").write_bytes(b"no picture")
    (photos / "p002.png").unlink()
    (photos / "notes.txt").write_text("by me")
    shutil.copy(photos / "p000.png", photos / "extra.png")
    rows[3] = {**rows[3], "kind": ""}
    twice = [rows[10], {**rows[10], "file": "p010.png"}, {**rows[11], "kind": "dog"}]
    manifest = run([*rows, *twice, {**rows[12], "weight": 0.5}])

    bad = {entry["row"]: entry["reason"] for entry in quarantined(tmp_path / "out")}
    assert bad == {
        2: "'p001': the file is not an image that Pillow can read",
        3: "'p002' is the name of no picture",
        12: "'p011' is also in row 63, with the kind 'dog', not 'emu'",
        63: "'p011' is also in row 12, with the kind 'emu', not 'dog'",
        13: "'p012' is also in row 64, with other values",
        64: "'p012' is also in row 13, with other values",
    }
    assert manifest["rows"] == {
        **{"read": 64, "written": 55, "quarantined": 6, "filtered": 0},
        **{"unlabelled": 1, "repeated_pictures": 2},
    }
    unused = (tmp_path / "out" / manifest["unused"]["file"]).read_text().splitlines()
    assert [json.loads(line) for line in unused] == [
        {"file": str(photos / "extra.png"), "reason": "named by no row"},
        {"file": str(photos / "notes.txt"), "reason": "no image"},
    ]
    assert notes(manifest) == [
        "64 rows: 55 examples, 6 quarantined (file 6), 1 without a label,"
        " 2 that repeat another one",
        f"1 file is named by no row: {photos}/extra.png",
        f"1 file is no image: {photos}/notes.txt",
    ]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl", "rows.json", "photos/rows.csv"])
def test_any_kind_of_table_gives_the_same_examples(run, rows, tmp_path, name):
    expected = run(rows, num_shards={"train": 1})["splits"]
    (tmp_path / "labels.csv").unlink()
    manifest = run(write_rows(tmp_path / name, rows), num_shards={"train": 1})
    assert manifest["splits"] == expected
    assert "unused" not in manifest


@pytest.mark.parametrize("indent", [None, 1])
def test_an_object_has_fields_by_the_name_of_the_file(run, rows, tmp_path, indent):
    expected = run(rows, num_shards={"train": 1})["splits"]
    fields = {f"{row['file']}.png": {**row} for row in rows}
    for one in fields.values():
        del one["file"]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(fields, indent=indent))
    assert run(path, num_shards={"train": 1})["splits"] == expected


def test_a_picture_stays_in_its_split_whatever_its_name_size_and_rows(run, rows, tmp_path):
    photos = tmp_path / "photos"
    for row in rows:
        shutil.copy(photos / f"{row['file']}.png", photos / f"copy-{row['file']}.png")
    copies = [{**row, "file": f"copy-{row['file']}.png"} for row in rows]
    manifest = run([*rows, *copies, *rows], more='group_by=["file"]')
    assert manifest["split_rule"].startswith("by a hash of the bytes of file: ")
    assert manifest["rows"]["written"] == 180
    by_split = {
        split: {one["pixels"] for one in some}
        for split, some in examples_of(tmp_path / "out").items()
    }
    assert sum(map(len, by_split.values())) == 60
    assert run([*rows, *copies, *rows], more="")["splits"] == manifest["splits"]

    small = run([*rows, *copies, *rows], more="", size=(2, 2))
    counts = {name: one["num_examples"] for name, one in manifest["splits"].items()}
    assert {name: one["num_examples"] for name, one in small["splits"].items()} == counts


def test_several_parts_leave_out_the_same_rows(run, rows):
    rows = [*rows, rows[5], {**rows[6], "kind": "dog"}]
    expected = run(rows)
    manifest = run(rows, num_shards={"train": 3})
    assert manifest["rows"] == expected["rows"]
    counts = {name: one["num_examples"] for name, one in expected["splits"].items()}
    assert {name: one["num_examples"] for name, one in manifest["splits"].items()} == counts


def test_another_picture_is_another_input(run, rows, tmp_path):
    run(rows)
    files = (str(tmp_path / "labels.csv"), str(tmp_path / "photos"))
    before = fingerprint(str(tmp_path / "own"), options=PrepareOptions(files=files))
    Image.new("RGB", (3, 3)).save(tmp_path / "photos/p000.png")
    assert before != fingerprint(str(tmp_path / "own"), options=PrepareOptions(files=files))


def test_files_without_a_table_or_without_pictures_are_refused(run, rows, tmp_path):
    table = str(write_rows(tmp_path / "labels.csv", rows))
    for files, lacking in ([table], "pictures"), ([str(tmp_path / "photos")], "a table"):
        with pytest.raises(DataError, match=rf"without {lacking}; .*files: \[labels.csv, photos\]"):
            run(rows, files=tuple(files))
    with pytest.raises(DataError, match="own has pictures, but no files are given"):
        run(rows, files=())
