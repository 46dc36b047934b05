"""`trainyard check`: what is found without the user's code, and how findings are shown."""

import json
import os
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.projects.trial import check as checks
from pipelines.projects.trial.findings import Finding

pytestmark = pytest.mark.fast

RUN = "prepare: {files: [a.csv]}\ntrain: {epocs: 3, batch_size: nope}\ncluster: {strategy: x}\n"
SAYING = """\
import sys
file = sys.argv[1] + '/workload.py'
print({ok!r})
print({wrong!r}.replace('FILE', file))
sys.exit({code})
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder `own` in the current one, and a process that finds one mistake."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/workload.py").write_text("workload = None\n")
    say(monkeypatch)
    return tmp_path / "own"


def say(monkeypatch, code: int = 0) -> None:
    ok = Finding(name="declaration", detail="a table").to_json()
    problem = "FILE, line 7: no such column"
    wrong = Finding(name="data", state="wrong", problems=(problem,)).to_json()
    text = SAYING.format(ok=ok, wrong=wrong, code=code)
    stand_in(text, monkeypatch)


def stand_in(text, monkeypatch):
    """Have a module of this text run instead of the trial."""
    Path("stand_in.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()), prepend=os.pathsep)
    monkeypatch.setattr(checks, "MODULE", "stand_in")


def test_independent_mistakes_are_all_named_with_file_and_line(folder, capsys):
    (folder / "run.yaml").write_text(RUN)
    (folder / "requirements.txt").write_text("no-such-package>=3\n")
    assert main(["check", "own"]) == 2
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for start in (
        "own/run.yaml:3: cluster: strategy is 'x'",
        "own/run.yaml:2: unknown key 'train.epocs'; did you mean 'train.epochs'?",
        "own/run.yaml:2: train.batch_size is 'nope'",
        "own/requirements.txt needs no-such-package>=3 (not installed)",
        "own/workload.py:7: no such column",
        "5 mistakes in own",
    ):
        assert any(line.startswith(start) for line in lines), (start, lines)
    assert max(map(len, lines)) < 250, "the list of all keys is not helpful"


def test_a_run_file_that_cannot_be_read_is_the_only_mistake(folder, capsys):
    (folder / "run.yaml").write_text("train: {epochs: [}\n")
    assert main(["check", "own"]) == 2
    assert "1 mistake in own" in capsys.readouterr().out


def test_a_process_that_ends_early_is_a_mistake(folder, monkeypatch, capsys):
    say(monkeypatch, code=9)
    found = list(checks.check("own"))
    assert [one.name for one in found] == ["declaration", "data", "process"]
    assert "ended with code 9, after data" in found[-1].problems[0]


def test_a_workload_of_this_repository_is_refused(capsys):
    assert main(["check", "mnist"]) == 2
    assert "mnist is a workload of Trainyard itself" in capsys.readouterr().err


def test_the_code_of_the_trial_is_given_the_settings(folder, monkeypatch):
    """Also if many files are named: Linux allows 128 KiB in an argument."""
    names = [f"part-{number:05}-of-01500-{'x' * 60}.parquet" for number in range(1_500)]
    text = f"prepare: {{files: {json.dumps(names)}}}\ntrain: {{epochs: 3}}\n"
    (folder / "run.yaml").write_text(text + "thresholds: {auc: 0.5}\ngate: {slices: [age]}\n")
    show = "import sys, json; texts = [open(sys.argv[2]).read()]\n"
    show += "print(json.dumps({'name': 'x', 'problems': texts}))"
    stand_in(show, monkeypatch)
    [given] = map(json.loads, list(checks.check("own"))[-1].problems)
    files = given.pop("prepare")["files"]
    assert [name.rpartition("/")[2] for name in files] == names
    settings = {"thresholds": {"auc": 0.5}, "gate": {"slices": ["age"]}}
    assert given == {"train": {"epochs": 3}, **settings}


def test_a_slice_is_named_with_its_line(folder, monkeypatch):
    (folder / "run.yaml").write_text("gate:\n  slices:\n    - age\n    - plam = 'a'\n")
    wrong = "gate.slices has \"plam = 'a'\", but own has no feature 'plam'"
    say_it = f"print({Finding(name='slices', problems=(wrong,)).to_json()!r})"
    stand_in(say_it, monkeypatch)
    assert list(checks.check("own"))[-1].problems == (f"own/run.yaml:4: {wrong}",)

    (folder / "run.yaml").write_text("train: {epochs: 3}\ngate:\n  slices: [age, 'age >']\n")
    [found, *_] = checks.check("own")
    [problem] = found.problems
    assert problem.startswith("own/run.yaml:3: gate.slices has 'age >', which is not a slice")
