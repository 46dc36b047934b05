"""The folder of local state: paths that jobs cannot take are refused before anything starts."""

import os

import pytest

from pipelines import cli
from pipelines.places.target import make_state_dir
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\tb", os.fsdecode(b"a\xff")], ids=ascii)
def test_a_path_that_would_break_the_json_of_jobs_is_refused(tmp_path, monkeypatch, name):
    for folder in (tmp_path / name, tmp_path / name / ".trainyard"):
        with pytest.raises(ConfigError, match=r"has the character .* give --state-dir"):
            make_state_dir(folder)
        assert not folder.exists()
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    assert cli.main(["models", "list", "--state-dir", "state"]) == 2
    assert not any((tmp_path / name).iterdir())


@pytest.mark.parametrize("name", ["a b", "a'b", "a$b", "äö", "日本", "a{b}"])
def test_other_unusual_paths_are_accepted(tmp_path, name):
    make_state_dir(tmp_path / name / "state")
    assert (tmp_path / name / "state").is_dir()
