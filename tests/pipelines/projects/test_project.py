"""Projects: what is one, and what a snapshot of its code has."""

import os

import pytest

from pipelines.projects import project as projects
from pipelines.projects.project import (
    Project,
    code_files,
    origin_file,
    project_of,
    take_snapshot,
)
from trainer.errors import ConfigError
from trainer.references import SNAPSHOT, valid_name, workload_name

pytestmark = pytest.mark.fast

CODE = "workload = None\n"


@pytest.fixture
def churn(tmp_path):
    """A folder with a workload.py and much that is not code."""
    folder = tmp_path / "churn"
    files = (
        "workload.py helpers.py parts/__init__.py parts/words.txt requirements.txt run.yaml "
        "README.md test_workload.py tests/test_more.py .git/config .env __pycache__/a.pyc "
        "data/a.csv data/b.csv table.csv schedules/nightly.yaml dist/churn.yaml venv/pyvenv.cfg "
        "venv/lib.py look.ipynb"
    )
    for name in files.split():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CODE)
    return folder


IN_SNAPSHOT = ["helpers.py", "parts/__init__.py", "parts/words.txt", "requirements.txt"]


@pytest.mark.parametrize(
    "data", [["{}/data/*.csv", "{}/table.csv"], ["{}/data/", "{}/*.csv"], ["{}/**/*.csv"]]
)
def test_a_snapshot_has_the_code_and_not_the_data(churn, tmp_path, data):
    patterns = [one.format(churn) for one in data]
    snapshot = take_snapshot(Project(churn), tmp_path / "state", data=patterns)
    found = sorted(
        path.relative_to(snapshot.folder).as_posix()
        for path in snapshot.folder.rglob("*")
        if path.is_file()
    )
    assert found == [*IN_SNAPSHOT, "workload.py"]
    assert snapshot.folder.parent == tmp_path / "state" / "code"
    assert SNAPSHOT.fullmatch(snapshot.reference)
    assert workload_name(str(snapshot.folder)) == workload_name(snapshot.reference) == "churn"


def test_equal_code_is_copied_once_and_changed_code_again(churn, tmp_path):
    state = tmp_path / "state"
    first = take_snapshot(Project(churn), state)
    os.utime(first.folder, (1, 1))
    assert take_snapshot(Project(churn), state).folder == first.folder
    assert first.folder.stat().st_mtime > 1, "it is in use again"
    (churn / "run.yaml").write_text("train: {epochs: 2}")
    (churn / "README.md").write_text("words")
    assert take_snapshot(Project(churn), state).folder == first.folder
    (churn / "helpers.py").write_text("ONE = 2\n")
    second = take_snapshot(Project(churn), state)
    assert second.folder != first.folder
    assert (first.folder / "helpers.py").read_text() == CODE
    (churn / "helpers.py").rename(churn / "others.py")
    assert take_snapshot(Project(churn), state).folder not in (first.folder, second.folder)
    assert sorted(state.glob("code/.new-*")) == []
    assert origin_file(first.folder).read_text() == str(churn)


def test_a_single_file_travels_alone(churn, tmp_path):
    (churn / "Price 2.py").write_text(CODE)
    project = project_of(str(churn / "Price 2.py"))
    assert project is not None
    snapshot = take_snapshot(project, tmp_path / "state")
    assert [path.name for path in snapshot.folder.iterdir()] == ["workload.py"]
    assert snapshot.reference.startswith("price-2-")
    assert (project.run_file, project.requirements) == (None, None)


def test_links_that_leave_the_folder_are_refused(churn, tmp_path):
    (tmp_path / "secret.txt").write_text("x")
    (churn / "inside.py").symlink_to("helpers.py")
    assert "inside.py" in code_files(churn)
    (churn / "link.txt").symlink_to("../secret.txt")
    with pytest.raises(ConfigError, match=r"link\.txt is a link to .*secret\.txt"):
        take_snapshot(Project(churn), tmp_path / "state")
    assert list((tmp_path / "state/code").iterdir()) == []


def test_a_link_to_a_folder_is_refused_unless_it_is_data(churn, tmp_path):
    (tmp_path / "photos").mkdir()
    (churn / "photos").symlink_to(tmp_path / "photos")
    with pytest.raises(ConfigError, match="photos is a link to the folder"):
        code_files(churn)
    for data in (f"{churn}/photos", f"{churn}/photos/*.png"):
        assert "helpers.py" in code_files(churn, data=[data])


def test_large_files_are_left_out_with_a_warning_and_large_folders_refused(
    churn, monkeypatch, caplog
):
    monkeypatch.setattr(projects, "MAX_FILE_BYTES", 100)
    (churn / "weights.bin").write_bytes(b"x" * 101)
    assert "weights.bin" not in code_files(churn)
    assert "weights.bin" in caplog.text
    monkeypatch.setattr(projects, "MAX_FILES", 3)
    with pytest.raises(ConfigError, match="a folder of its own"):
        code_files(churn)


@pytest.mark.parametrize("reference", ["churn", "churn/", "./churn", "churn/workload.py", "{}"])
def test_a_path_is_a_project(churn, monkeypatch, reference):
    monkeypatch.chdir(churn.parent)
    assert project_of(reference.format(churn)) == Project(churn)
    monkeypatch.chdir("/")
    if "{" not in reference:
        assert project_of(reference, folder=churn.parent) == Project(churn)


def test_names_are_no_projects(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist/workload.py").write_text(CODE)
    assert project_of("mnist") is None, "the built-in name comes first"
    assert project_of("./mnist") == Project(tmp_path / "mnist")
    assert project_of("package.module") is None
    assert project_of("chrun") is None


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere/", r"there is no folder /.*nowhere"),
        ("nowhere.py", r"there is no file /.*nowhere\.py"),
        ("empty/", r"no workload\.py; write one"),
        (".", r"no workload\.py; did you mean /.*/churn\?"),
    ],
)
def test_a_missing_workload_is_named(churn, monkeypatch, reference, message):
    monkeypatch.chdir(churn.parent)
    (churn.parent / "empty").mkdir()
    with pytest.raises(ConfigError, match=message):
        project_of(reference)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("churn", "churn"),
        ("My Churn_v2", "my-churn-v2"),
        ("2024", "w-2024"),
        ("数据", "w"),
        ("a" * 80, "a" * 63),
        ("../../etc", "etc"),
        ('x"; rm -rf', "x-rm-rf"),
    ],
)
def test_a_name_is_made_valid(given, name):
    assert valid_name(given) == name
