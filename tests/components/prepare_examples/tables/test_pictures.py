"""Pictures in a folder that a table names: read with its other columns, and all accounted for."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import notes
from components.prepare_examples.tables.pictures import Pictures
from tests.support.data.picture_tables import SIZE, Rows, write_pictures, write_rows
from tests.support.data.prepared import Prepared

WORKLOAD = """Table(
    [Image("file", size={size}), Number("weight")], label=Classes("kind"), ignored=["place"],
    {more}
)"""
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


@pytest.fixture
def read(tmp_path, run):
    """Prepare rows, or a file, with the pictures of the folder `photos`."""

    def do(rows: Rows | Path, more: str = 'key="file"', size=SIZE, **options) -> Prepared:
        text = WORKLOAD.format(more=more, size=size)
        return run(text, rows, tmp_path / "photos", **{"max_quarantine": 0.2, **options})

    return do


@pytest.fixture
def rows(tmp_path) -> Rows:
    return write_pictures(tmp_path / "photos", 60)


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


def test_pixels_and_other_columns_are_stored_side_by_side(read, rows, tmp_path):
    found = read(rows)
    examples = {
        (one["file"][0], one["weight"][0], one["kind"][0].decode()) for one in found.examples()
    }
    assert examples == {
        (Image.open(tmp_path / f"photos/{row['file']}.png").tobytes(), row["weight"], row["kind"])
        for row in rows
    }
    assert len(found.records()) == 60
    assert "unused" not in found.manifest
    assert set(found.statistics()["features"]) == {"weight", "kind"}


def test_every_row_and_every_file_is_accounted_for(read, rows, tmp_path):
    photos = tmp_path / "photos"
    (photos / "p001.png").write_bytes(b"no picture")
    (photos / "p002.png").unlink()
    (photos / "notes.txt").write_text("by me")
    shutil.copy(photos / "p000.png", photos / "extra.png")
    rows[3] = {**rows[3], "kind": ""}
    twice = [rows[10], {**rows[10], "file": "p010.png"}, {**rows[11], "kind": "dog"}]
    found = read([*rows, *twice, {**rows[12], "weight": 0.5}])

    assert {entry["row"]: entry["reason"] for entry in found.quarantine} == {
        2: "'p001': the file is not an image that Pillow can read",
        3: "'p002' is the name of no picture",
        12: "'p011' is also in row 63, with the kind 'dog', not 'emu'",
        63: "'p011' is also in row 12, with the kind 'emu', not 'dog'",
        13: "'p012' is also in row 64, with other values",
        64: "'p012' is also in row 13, with other values",
    }
    counts = {"read": 64, "written": 55, "quarantined": 6, "unlabelled": 1}
    assert found.rows == {**counts, "repeated_pictures": 2}
    unused = (found.folder / found.manifest["unused"]["file"]).read_text().splitlines()
    assert [json.loads(line) for line in unused] == [
        {"file": str(photos / "extra.png"), "reason": "named by no row"},
        {"file": str(photos / "notes.txt"), "reason": "no image"},
    ]
    assert notes(found.manifest) == [
        "64 rows: 55 examples, 6 quarantined (file 6), 1 without a label,"
        " 2 that repeat another one",
        f"1 file is named by no row: {photos}/extra.png",
        f"1 file is no image: {photos}/notes.txt",
    ]


def test_any_kind_of_table_gives_the_same_examples(read, rows, tmp_path):
    expected = read(rows).shards
    for name in ("rows.parquet", "rows.jsonl", "rows.json", "photos/rows.csv"):
        found = read(write_rows(tmp_path / name, rows))
        assert found.shards == expected
        assert "unused" not in found.manifest
    (tmp_path / "photos/rows.csv").unlink()
    fields = {f"{row.pop('file')}.png": row for row in rows}
    for indent in (None, 1):  # an object has fields by the name of the file
        (tmp_path / "rows.json").write_text(json.dumps(fields, indent=indent))
        assert read(tmp_path / "rows.json").shards == expected


def test_a_picture_stays_in_its_split_whatever_its_name_size_and_rows(read, rows, tmp_path):
    photos = tmp_path / "photos"
    for row in rows:
        shutil.copy(photos / f"{row['file']}.png", photos / f"copy-{row['file']}.png")
    copies = [{**row, "file": f"copy-{row['file']}.png"} for row in rows]
    found = read([*rows, *copies, *rows], more='group_by=["file"]')
    assert found.manifest["split_rule"].startswith("by a hash of the bytes of file: ")
    assert found.rows["written"] == 180
    assert sum(len({*pixels}) for pixels in found.splits("file")) == 60
    assert read([*rows, *copies, *rows], more="").shards == found.shards
    assert read([*rows, *copies, *rows], more="", size=(2, 2)).counts == found.counts


def test_several_parts_leave_out_the_same_rows(read, rows):
    rows = [*rows, rows[5], {**rows[6], "kind": "dog"}]
    one, three = read(rows), read(rows, num_shards={"train": 3})
    assert (one.rows, one.counts) == (three.rows, three.counts)


def test_files_without_a_table_or_without_pictures_are_refused(read, rows, tmp_path):
    table = str(write_rows(tmp_path / "labels.csv", rows))
    for files, lacking in ([table], "pictures"), ([str(tmp_path / "photos")], "a table"):
        with pytest.raises(DataError, match=rf"without {lacking}; .*files: \[labels.csv, photos\]"):
            read(rows, files=tuple(files))
    with pytest.raises(DataError, match="own has pictures, but no files are given"):
        read(rows, files=())
