"""`trainyard new` for images and records."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.files import find_files
from pipelines.projects.starter.folder import write_folder
from pipelines.projects.starter.images import start_images
from pipelines.projects.starter.records import start_records
from tests.support.data.cases.records import example, records_of, sequence
from tests.support.data.class_folders import save_images
from tests.support.data.trials import try_folder
from trainer.workloads import Classes, ImageFolder, Values, load_workload

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize(
    ("sizes", "mode", "expected"),
    [
        ([(12, 20)] * 3, "L", {"size": (20, 12), "channels": 1}),
        ([(12, 20), (30, 30)], "RGB", {"size": (64, 64), "channels": 3}),
        ([(300, 300)] * 2, "RGB", {"size": (64, 64), "channels": 3}),
    ],
)
def test_size_and_channels_of_images_are_those_of_the_files(tmp_path, sizes, mode, expected):
    save_images(tmp_path / "photos", sizes, mode)
    write_folder(tmp_path / "own", start_images(str(tmp_path / "photos")))
    workload = load_workload(str(tmp_path / "own"))
    assert isinstance(workload, ImageFolder)
    assert {name: getattr(workload, name) for name in expected} == expected


def test_photographs_are_as_large_as_their_orientation_says(tmp_path):
    save_images(tmp_path / "photos", [(12, 20), (12, 20)])
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    Image.new("RGB", (20, 12)).save(tmp_path / "photos/cats/2.jpg", exif=exif)
    Image.new("RGB", (12, 20)).save(tmp_path / "photos/dogs/2.jpg", exif=exif)
    start = start_images(str(tmp_path / "photos"))
    assert "size=(64, 64),  # files are 20x12, 12x20; resized" in start.workload
    (tmp_path / "photos/dogs/2.jpg").unlink()
    assert "size=(20, 12),  # all are 20x12" in start_images(str(tmp_path / "photos")).workload


def test_pictures_that_cannot_be_read_are_not_measured(tmp_path):
    save_images(tmp_path / "photos", [(12, 20), (12, 20)])
    Image.new("1", (12_000, 12_000)).save(tmp_path / "photos/cats/scan.png")
    (tmp_path / "photos/dogs/2.jpg").write_bytes(b"")
    start = start_images(str(tmp_path / "photos"))
    assert "size=(20, 12),  # all are 20x12" in start.workload


def test_an_empty_or_single_class_folder_is_named(tmp_path):
    save_images(tmp_path / "photos", [(8, 8)])
    (tmp_path / "photos/birds").mkdir()
    with pytest.raises(DataError, match=r"photos/birds has no images"):
        start_images(str(tmp_path / "photos"))


@pytest.mark.parametrize(
    ("folders", "note"),
    [
        (("Training", "Testing"), r"split by the folders \(Testing: test; Training: train\)"),
        (
            ("training_set", "test_set"),
            "as of test_set/cats/0.png, are none. If these are splits, call",
        ),
    ],
)
def test_folders_that_are_no_classes_are_said(tmp_path, folders, note):
    for folder in folders:
        save_images(tmp_path / "own" / folder, [(20, 20)] * 20)
    notes = start_images(str(tmp_path / "own")).notes
    assert [one for one in notes if re.search(note, one)]


@pytest.fixture
def write(tmp_path):
    """Write records to a file of the folder `data`; return the folder."""

    def do(items, name="a.tfrecord", compression="") -> str:
        records_of(name, items, compression)(tmp_path)
        return str(tmp_path / "data")

    return do


def numbered(count: int = 60, **more):
    """Return records; functions return further values by a record's number."""
    return [
        example(x=[at / 2], y=[at % 2], **{name: make(at) for name, make in more.items()})
        for at in range(count)
    ]


def test_records_get_their_features_and_the_default_model(tmp_path, write):
    kinds = {
        "wave/raw": lambda at: [float(at), 1.0, 2.0],
        "count": lambda at: [at] if at % 5 else None,
        "city": lambda at: [b"ab"[at % 2 : at % 2 + 1]],
        "image": lambda at: [b"\x89PNG"],
        "reading_id": lambda at: [str(at).encode()],
        "several": lambda at: [1] * (at % 3 + 1),
        "y": lambda at: [at % 3],
    }
    folder = write([example(**{name: kinds[name](at) for name in kinds}) for at in range(60)])
    start = start_records([folder], "y")
    write_folder(tmp_path / "own", start)
    workload = load_workload(str(tmp_path / "own"))
    assert workload.features == {
        "city": Values("string"),
        "count": Values("int64", default_value=0),
        "wave/raw": Values("float32", (3,)),
    }
    assert workload.label == Classes("y")
    assert start.data == (f"{folder}/*.tfrecord*",)
    found = try_folder(tmp_path / "own", tmp_path / "data/a.tfrecord")
    assert not [problem for one in found.values() for problem in one.problems]
    assert {one.state for one in found.values()} == {"ok"}
    with pytest.raises(DataError, match=r"--label z: .* are city, count"):
        start_records([folder], "z")


def test_the_records_of_a_folder_need_no_suffix(tmp_path, write):
    names = ["part-00000-of-00002", "part-00001-of-00002"]
    for name in names:
        folder = write(numbered(), name)
    records_of("a.tfrec", numbered())(tmp_path / "more")
    start = start_records([folder, str(tmp_path / "more/data")], "y")
    assert start.num_examples == 180
    assert [Path(file).name for file in find_files(start.data)] == [*names, "a.tfrec"]


def test_what_is_no_record_is_named(tmp_path, write):
    with pytest.raises(DataError, match=r"a\.tfrecord has 10 records; at least 30 are needed"):
        start_records([write(numbered(10))], "y")
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(DataError, match=r"a\.csv holds no TFRecords"):
        start_records([str(tmp_path / "a.csv")], "y")
    with pytest.raises(DataError, match=r"--records .*none: there is no such"):
        start_records([str(tmp_path / "none")], "y")


ODD = {
    "long texts": (lambda at: [b"one two three %d" % at], "60 texts of 4 words"),
    "bytes": (lambda at: [np.arange(8, dtype="f4").tobytes()], "bytes that are no text; .*raw"),
    "mixed": (lambda at: [at if at < 30 else at / 2], "of one type in some records"),
    "lengths": (lambda at: [7] * (at % 4), "its number of values differs"),
}


@pytest.mark.parametrize(("make", "problem"), ODD.values(), ids=ODD)
def test_a_feature_that_a_model_cannot_get_is_named(write, make, problem):
    start = start_records([write(numbered(odd=make))], "y")
    assert re.search(f"# odd: {problem}", start.workload)
    [note] = start.notes
    assert re.match(f"odd: left out: {problem}", note)
    folder = write([example(odd=make(at), y=[at % 2]) for at in range(60)])
    with pytest.raises(DataError, match=f"no feature but y .*odd: {problem}"):
        start_records([folder], "y")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda at: [at % 2, 1], "--label y: its type is list of 2 numbers"),
        (
            lambda at: [at % 2 if at < 9 else 0.5],
            "--label y: its type is of one type in some records",
        ),
    ],
    ids=["two numbers", "two types"],
)
def test_a_label_of_records_that_is_none_is_named(write, make, problem):
    folder = write([example(x=[at / 2], y=make(at)) for at in range(60)])
    with pytest.raises(DataError, match=problem):
        start_records([folder], "y")


def test_a_feature_of_records_that_tells_the_label_is_noted(write):
    told = {
        "image/class/text": lambda at: [b"cat dog ox".split()[at % 3]],
        "image/class/label": lambda at: [at % 3],
        "color": lambda at: [b"ab"[at % 2 : at % 2 + 1]],
    }
    notes = start_records([write(numbered(**told))], "image/class/label").notes
    [note] = [note for note in notes if " tells " in note]
    assert note.startswith("image/class/text: tells image/class/label alone")


def test_texts_of_records_are_no_numbers_in_other_forms(write):
    start = start_records([write(numbered(code=lambda at: [b"1.%03d" % (at % 9)]))], "y")
    assert '"code": Values("string"),' in start.workload


def test_sequence_examples_are_counted(write):
    write(numbered())
    folder = write([sequence()], "b.tfrecord")
    [note] = start_records([folder], "y").notes
    assert note.startswith("left out: 1 records; each is a tf.train.SequenceExample")


def test_ids_of_records_are_left_out_and_decide_nothing(write):
    start = start_records([write(numbered(patient=lambda at: [b"p%d" % (at // 2)]))], "y")
    assert start.notes == ["patient: left out: ids: 30 values, 2.0 rows of each"]
