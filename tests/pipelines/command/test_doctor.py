"""`trainyard doctor`: each thing that is wrong has its mend."""

import json
from pathlib import Path

import pytest

from pipelines.cli import main
from vertex_local.api.database.store import Store

pytestmark = pytest.mark.fast


def test_each_thing_that_is_wrong_has_its_mend(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))

    path = Path(tmp_path, "state/vertex/vertex.db")
    path.parent.mkdir(parents=True)
    Store(path).close()
    assert main(["doctor"]) == 0
    path.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    assert main(["doctor"]) == 1
    assert "wrong  database: " in capsys.readouterr().out
    assert main(["doctor", "--json"]) == 1
    [found] = [one for one in json.loads(capsys.readouterr().out) if not one["is_right"]]
    assert f"mv {path.parent} {path.parent}.old" in found["mend"]
    assert main(["doctor", "--state-dir", f"{path}/x"]) == 1
