"""Options that several commands share."""

import pytest

from pipelines.cli import main

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


@pytest.mark.parametrize(
    "command", ["runs list", "jobs cancel 1", "report", "prune", "cache clear", "teardown"]
)
def test_a_folder_without_state_is_named_and_stays_as_it_is(tmp_path, capsys, monkeypatch, command):
    monkeypatch.delenv("VERTEX_EMULATOR_HOST", raising=False)
    folder = tmp_path / "typo"

    assert main([*command.split(), "--state-dir", str(folder)]) == 2

    assert f"{folder} has no Trainyard state" in capsys.readouterr().err
    assert not folder.exists()
