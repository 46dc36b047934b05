"""Scripts that people have: `new` takes them over or says what it does not, and `check` accepts."""

import pytest

from pipelines.cli import main
from pipelines.projects.trial.findings import OK
from tests.support.data.cases.scripts import CASES
from tests.support.data.trials import try_folder
from tests.support.processes.script import run_scripts_here

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("name", CASES)
def test_new_takes_over_and_check_accepts(tmp_path, monkeypatch, capsys, caplog, name):
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    run_scripts_here(monkeypatch)
    caplog.set_level("INFO")
    case.write(tmp_path)
    (tmp_path / "script.py").write_text(case.source)

    code = main(["new", "own", "--table", "data.csv", "--script", "script.py"])

    said = "".join(capsys.readouterr()) + caplog.text
    assert code == 0, said
    assert [text for text in case.says if text not in said] == []
    for file, texts in (("workload.py", case.workload), ("run.yaml", case.run)):
        written = (tmp_path / "own" / file).read_text()
        assert [text for text in texts if text not in written] == [], written
    if case.model:
        findings = try_folder(tmp_path / "own", tmp_path / "data.csv")
        assert case.model in findings["model"].detail
        problems = {one.name: one.problems for one in findings.values() if one.state != OK}
        assert problems == {}
