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
