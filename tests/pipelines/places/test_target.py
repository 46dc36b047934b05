"""The folder of local state: refused paths, and who else may use it."""

import os
import stat

import pytest

from pipelines import cli
from pipelines.places.target import local_target, make_state_dir
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
    assert cli.main(["schedule", "run-now", "x", "--state-dir", "state"]) == 2
    assert not any((tmp_path / name).iterdir())


@pytest.mark.parametrize("name", ["a b", "a'b", "a$b", "äö", "日本", "a{b}"])
def test_other_unusual_paths_are_accepted(tmp_path, name):
    make_state_dir(tmp_path / name / "state")
    assert (tmp_path / name / "state").is_dir()


def test_a_state_folder_is_made_private_unless_all_users_share_it(tmp_path):
    made, loose, shared = (tmp_path / name for name in ("a/made", "loose", "shared"))
    loose.mkdir(mode=0o755)
    shared.mkdir()
    shared.chmod(0o1777)

    make_state_dir(made)
    make_state_dir(loose)
    with pytest.raises(ConfigError, match="shared by all users"):
        make_state_dir(shared)

    modes = [stat.S_IMODE(folder.stat().st_mode) for folder in (made, loose, shared)]
    assert modes == [0o700, 0o700, 0o1777]


def test_a_state_folder_that_is_a_file_is_refused_by_its_name(tmp_path):
    file = tmp_path / "notes"
    file.touch()
    with pytest.raises(ConfigError, match=r"notes is .*--state-dir"):
        make_state_dir(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_state_folder_of_another_user_is_refused(tmp_path):
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 12345, 12345)
    with pytest.raises(ConfigError, match="belongs to the user 12345"):
        make_state_dir(foreign)


@pytest.mark.parametrize(("mode", "is_open"), [(0o777, True), (0o1777, False), (0o755, False)])
def test_a_new_state_folder_that_all_users_can_replace_is_a_warning(
    tmp_path, caplog, mode, is_open
):
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(mode)
    make_state_dir(above / "state")
    assert (f"every user can write to {above}, and so replace" in caplog.text) == is_open
    caplog.clear()
    make_state_dir(above / "state")
    assert caplog.text == "", "it is said once"


def test_on_this_machine_buckets_are_folders_of_the_local_state(tmp_path):
    target = local_target(tmp_path, pipeline_root="gs://mine/runs", data_dir="gs://raw")
    assert target.pipeline_root == f"{tmp_path}/buckets/mine/runs"
    assert target.data_root == f"{tmp_path}/buckets/raw"
    assert local_target(tmp_path).pipeline_root == f"{tmp_path}/runs"
