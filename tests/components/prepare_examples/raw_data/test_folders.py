"""The folder of raw data, checked before anything is created."""

import pytest

from components.prepare_examples.cli import main
from components.prepare_examples.raw_data.files import check_data_dir

pytestmark = pytest.mark.fast


def test_mistyped_data_folder_is_refused_and_not_created(tmp_path):
    (tmp_path / "raw-data").mkdir()
    with pytest.raises(ValueError, match=r"did you mean '.*raw-data'\?"):
        check_data_dir(str(tmp_path / "raw-dta"))
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="not a folder"):
        check_data_dir(str(tmp_path / "file"))
    check_data_dir(str(tmp_path / "raw-data"))
    check_data_dir("gs://bucket/data")
    check_data_dir("")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "raw-data"]


def test_preparing_examples_alone_checks_the_data_folder(tmp_path, capsys):
    places = ["--output-dir", str(tmp_path / "out"), "--data-dir", str(tmp_path / "nowhere")]

    assert main(["--workload", "mnist", *places]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
