"""`trainyard new` for pictures in a flat folder with a table of their labels."""

import json
import re

import pytest
from PIL import Image as Picture

from components.prepare_examples.errors import DataError
from pipelines.cli import main
from pipelines.projects.starter.folder import write_folder
from pipelines.projects.starter.images import start_images
from pipelines.projects.starter.tables import start_table
from tests.support.data.picture_tables import SIZE, Rows, write_pictures, write_rows
from tests.support.data.trials import try_folder
from trainer.workloads import Classes, Image, Table, load_workload


@pytest.fixture
def rows(tmp_path) -> Rows:
    return write_pictures(tmp_path / "photos", 60)


@pytest.fixture
def new(tmp_path):
    """Write a folder for rows with the pictures in `photos`; return workload and notes."""

    def do(rows: Rows, label: str = "kind", name: str = "labels.csv") -> tuple[Table, list[str]]:
        table = write_rows(tmp_path / name, rows)
        start = start_table([str(table)], label, images=str(tmp_path / "photos"))
        write_folder(tmp_path / "own", start)
        workload = load_workload(str(tmp_path / "own"))
        assert isinstance(workload, Table)
        return workload, list(start.notes)

    return do


def test_the_column_of_the_names_is_found_by_its_values_and_said(new, rows, tmp_path):
    workload, notes = new([{"no": at, **row} for at, row in enumerate(rows)])
    assert workload.used[0] == Image("file", size=SIZE, channels=3)
    assert workload.feature_names == ["file", "weight", "place"]
    assert workload.label == Classes("kind", values=("cat", "dog", "emu"))
    assert (workload.key, workload.ignored) == ("file", ("no",))
    said = re.compile(
        r"file: the names of the pictures, since 60 of 60 values are names of files; read as"
        r" Image\(\"file\", size=\(8, 6\), channels=3\): all are 8x6; .*; change column or size"
    )
    assert any(map(said.match, notes))
    assert 'files: ["../labels.csv", "../photos"]' in (tmp_path / "own/run.yaml").read_text()
    for instance in json.loads((tmp_path / "own/instances.json").read_text()):
        assert workload.parse_instance(instance)["file"].shape == (*SIZE, 3)


@pytest.mark.parametrize("name", ["labels.parquet", "labels.json"])
def test_any_kind_of_table_has_labels(new, rows, name):
    workload, _ = new(
        [{"image": f"photos/{row['file']}.PNG", "y": row["kind"]} for row in rows],
        label="y",
        name=name,
    )
    assert workload.feature_names == ["image"]


def test_a_damaged_picture_is_no_instance(new, rows, tmp_path):
    (tmp_path / "photos" / f"{rows[0]['file']}.png").write_bytes(b"GIF89a")
    new(rows)
    instances = json.loads((tmp_path / "own/instances.json").read_text())
    assert [instance["place"] for instance in instances] == [rows[1]["place"], rows[2]["place"]]


def test_what_new_writes_check_accepts_with_the_same_losses(new, rows, tmp_path):
    photos = tmp_path / "photos"
    (photos / "p001.png").unlink()
    Picture.new("RGB", (3, 3)).save(photos / "more.webp")
    (photos / "notes.txt").write_text("by me")
    rows += [rows[2], {**rows[3], "kind": "emu"}]
    _, notes = new(rows)
    assert "file: without a picture: 1 row, such as 'p001' in row 2; left out" in notes
    assert any("file: pictures with several rows: 2, such as" in note for note in notes)
    unused = [
        f"1 file is named by no row: {photos}/more.webp",
        f"1 file is no image: {photos}/notes.txt",
    ]

    files = [str(tmp_path / "labels.csv"), str(photos)]
    findings = try_folder(tmp_path / "own", photos, prepare={"files": files})
    assert {one.state for one in findings.values()} == {"ok"}
    detail = findings["data"].detail
    assert detail.startswith("all 62 rows: 58 examples, 3 quarantined")
    assert "1 that repeat another one" in detail
    assert all(words in detail for words in unused)


def test_pictures_with_several_rows_are_said_with_the_way_to_keep_them(new, rows):
    rows = [{**row, "weight": row["weight"] + extra} for row in rows for extra in (0, 1)]
    [note] = [note for note in new(rows)[1] if "with several rows" in note]
    assert "pictures with several rows: 60, such as" in note
    assert 'or write group_by=["file"] instead of key' in note


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda row: {**row, "file": f"other-{row['file']}"},
            r"no column of .*labels.csv has the names of the pictures in .*photos, such as"
            r" p000.png; its columns are file, weight",
        ),
        (
            lambda row: {**row, "file": row["file"].replace("p00", "q00")},
            r"no column of .*; file has most, but 'q000' in row 1 is none: add them",
        ),
    ],
    ids=["all names", "some names"],
)
def test_names_of_no_pictures_are_refused(new, rows, change, problem):
    with pytest.raises(DataError, match=problem):
        new(list(map(change, rows)))


def test_a_flat_folder_is_told_to_need_the_labels(rows, tmp_path):
    problem = "no class folders; .* with the labels of a flat folder: --table labels.csv"
    with pytest.raises(DataError, match=problem):
        start_images(str(tmp_path / "photos"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--images photos --label kind", "give the file with the labels .* as --table"),
        ("--images photos --table a.csv", "--table needs --label COLUMN"),
        ("--records a --images photos", "--records takes neither"),
        ("--label kind", "give the data: --table, --images or --records"),
    ],
)
def test_arguments_that_do_not_fit_are_named(tmp_path, words, problem, capfd):
    assert main(["new", str(tmp_path / "own"), *words.split()]) == 2
    assert re.search(problem, capfd.readouterr().err)
