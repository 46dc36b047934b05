"""`trainyard schedule apply` against the real service."""

import pytest
import yaml

from components.shared.vertex.api import EMULATOR_VARIABLE, connect
from pipelines.cli import main
from pipelines.places.target import DEFAULT_LOCATION, LOCAL_PROJECT
from pipelines.schedules.differences import ours

pytestmark = pytest.mark.processes


def test_a_changed_schedule_keeps_its_id_and_its_pause(service, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
    (tmp_path / "files").mkdir()

    def apply(**values: object) -> tuple[str, dict]:
        file = {"workload": "mnist", "cron": "0 3 * * *", "max_runs": 5, **values}
        (tmp_path / "files" / "nap.yaml").write_text(yaml.safe_dump(file))
        assert main(["schedule", "apply", str(tmp_path / "files")]) == 0
        [schedule] = ours(connect(LOCAL_PROJECT, DEFAULT_LOCATION))
        return capsys.readouterr().out.splitlines()[0], schedule

    line, created = apply()
    assert (line, created["state"]) == ("+ nap: created (TZ=UTC 0 3 * * *)", "ACTIVE")
    assert main(["schedule", "pause", "nap"]) == 0
    capsys.readouterr()

    line, changed = apply(cron="0 4 * * *")
    assert line == "~ nap: changed (TZ=UTC 0 4 * * *, paused)"
    assert (changed["name"], changed["state"]) == (created["name"], "PAUSED")
    assert apply(cron="0 4 * * *")[0] == "= nap: unchanged (TZ=UTC 0 4 * * *, paused)"

    line, resumed = apply(max_runs=None, paused=False)
    assert line == "~ nap: changed (TZ=UTC 0 3 * * *)"
    assert resumed["state"] == "ACTIVE"
    assert "maxRunCount" not in resumed
