"""Options that several commands share."""

import pytest

from pipelines.cli import main, parse
from pipelines.command.target_options import target_of

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    "command", ["run mnist", "submit mnist", "schedule apply", "jobs submit mnist"]
)
def test_every_command_with_a_data_folder_checks_it(tmp_path, capsys, monkeypatch, command):
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
    code = main([*command.split(), "--data-dir", str(tmp_path / "nowhere")])

    assert code == 2
    assert "nowhere" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("command", ["jobs cancel 1", "report", "prune --max-gb 1", "teardown"])
def test_a_folder_without_state_is_named_and_stays_as_it_is(tmp_path, capsys, monkeypatch, command):
    monkeypatch.delenv("VERTEX_EMULATOR_HOST", raising=False)
    folder = tmp_path / "typo"

    assert main([*command.split(), "--state-dir", str(folder)]) == 2

    assert f"{folder} has no Trainyard state" in capsys.readouterr().err
    assert not folder.exists()


@pytest.mark.parametrize("noun", ["runs", "models", "jobs", "endpoints", "schedule"])
def test_where_nothing_was_run_the_lists_are_empty(tmp_path, capsys, monkeypatch, noun):
    monkeypatch.delenv("VERTEX_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))

    assert [main([noun, "list"]), main([noun, "list", "--json"])] == [0, 0]

    assert capsys.readouterr().out == f"no {noun.removesuffix('s')}s yet\n[]\n"
    assert not (tmp_path / "state").exists()


def test_a_state_folder_is_known_by_one_path(tmp_path):
    arguments = parse(["runs", "list", "--state-dir", f"{tmp_path}/a/../b"])
    assert target_of(arguments).state_dir == tmp_path / "b"
