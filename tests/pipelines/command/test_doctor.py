"""`trainyard doctor`: each thing that is wrong has its mend."""

import json
from pathlib import Path

import pytest

from pipelines.cli import main
from vertex_local.api.database.store import Store

pytestmark = pytest.mark.fast


def test_each_thing_that_is_wrong_has_its_mend(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))

    def checks() -> tuple[int, dict]:
        code = main(["doctor", "--json"])
        return code, {one["name"]: one for one in json.loads(capsys.readouterr().out)}

    assert checks()[0] == 0
    path = Path(tmp_path, "state/vertex/vertex.db")
    path.parent.mkdir(parents=True)
    Store(path).close()
    assert checks()[0] == 0
    path.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    code, found = checks()
    assert (code, [name for name, one in found.items() if not one["is_right"]]) == (1, ["database"])
    assert f"mv {path.parent} {path.parent}.old" in found["database"]["mend"]
    assert main(["doctor"]) == 1
    assert "wrong  database: " in capsys.readouterr().out
