"""Small inputs that people have: `new`, `check` and `run` are right about each."""

import base64
import csv
import re
from pathlib import Path

import numpy as np
import pytest

from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.cli import main
from pipelines.projects.runs import find_run
from tests.support.data.cases import forms, images, parquet, records, tables
from tests.support.data.cases.case import Case, Result
from tests.support.data.trials import try_data
from trainer.workloads import Features, Number, Workload, load_workload
from trainer.workloads.declarations.names import declared_names
from trainer.workloads.description import describe, read_description

GROUPS = (tables, parquet, records, images, forms)
CASES = {name: case for group in GROUPS for name, case in group.CASES.items()}
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def new(tmp_path, monkeypatch, capsys):
    """Write a case's files and its folder `own`; return the exit code and what was said."""

    def do(case: Case) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        case.write(tmp_path)
        code = main(["new", "own", *case.words.split()])
        return code, "".join(capsys.readouterr())

    return do


@pytest.mark.parametrize("name", CASES)
def test_new_check_and_run_are_right_about(tmp_path, new, name):
    case = CASES[name]
    code, said = new(case)
    assert (code != 0) == case.refused, said
    for pattern in case.says:
        assert re.search(pattern, said), said
    if case.refused:
        assert not (tmp_path / "own").exists()
        return
    source = (tmp_path / "own/workload.py").read_text()
    assert [text for text in case.declares if text not in source] == []
    options = find_run(str(tmp_path / "own")).prepare_options()
    assert re.search(case.checked, checked(tmp_path / "own", options, tmp_path)), name
    result = prepared(tmp_path / "own", options, tmp_path / "run")
    assert case.facts(result), (result.rows, result.examples()[:3])
    if case.same_as:
        other = options.replace(files=(CASES[case.same_as].words.split()[1],))
        assert result.records() == prepared(tmp_path / "own", other, tmp_path / "other").records()
    if "a.csv" in case.words:
        check_requests(result.workload, tmp_path / "a.csv", result.records())


def test_no_case_is_lost():
    counted = {group.__name__.rpartition(".")[2]: len(group.CASES) for group in GROUPS}
    assert counted == {"tables": 18, "parquet": 7, "records": 9, "images": 1, "forms": 3}
    assert len(CASES) == sum(counted.values()), "a name occurs twice"


def checked(own: Path, options: PrepareOptions, folder: Path) -> str:
    """Return the check's detail or problems on the data."""
    (folder / "trial").mkdir()
    data = try_data(own, options, folder / "trial")
    return "\n".join(data.problems) or data.detail


def prepared(own: Path, options: PrepareOptions, folder: Path) -> Result:
    """Prepare the examples as a run does."""
    options = options.replace(num_shards={"train": 1}, compression="none")
    manifest = prepare(str(own), output_dir=folder, data_dir=own, options=options)
    return Result(folder, manifest, load_workload(str(own)))


def check_requests(workload: Workload, path: Path, records: list[bytes]) -> None:
    """Check that each example is what a model's server reads of the texts of some row."""
    delimiter = ";" if ";" in path.read_text(encoding="utf-8").partition("\n")[0] else ","
    with path.open(encoding="utf-8", newline="") as file:
        rows = [*csv.reader(file, delimiter=delimiter)]
    header = workload.header or rows[0]
    names = declared_names(header, workload.feature_names, workload.aliases)
    plain = {one.name for one in workload.used if isinstance(one, Number) and not one.written}
    instances = [
        {
            name: float(text) if name in plain and text else text or None
            for name, text in zip(names, row, strict=True)
            if name in workload.feature_names
        }
        for row in rows
        if row != [*header]
    ]
    served = read_description(describe(workload)).parse_instances(instances)
    encoded = [{"b64": base64.b64encode(record).decode()} for record in records]
    assert in_rows(workload.parse_examples(encoded)) <= in_rows(served)


def in_rows(columns: Features) -> set[str]:
    """Return the values of each row of parsed columns, as one text."""
    names = sorted(columns)
    return {
        str([np.asarray(value).tolist() for value in row])
        for row in zip(*(columns[name] for name in names), strict=True)
    }
