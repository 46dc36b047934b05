"""Tables and JSON on stdout."""

import io
import sys

import pytest

from components.shared.vertex.labels import RUN_LABEL
from pipelines.command.actions import chosen, print_json
from pipelines.errors import ResourceError
from pipelines.resources.kinds import JOB, Kind
from pipelines.resources.table import TextTable, table_lines

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "größe €"), ("ascii", r"\u20ac")])
def test_letters_are_printed_as_they_are_if_stdout_has_them(monkeypatch, encoding, shown):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stdout)
    print_json({"label": "größe €"})
    stdout.seek(0)
    assert shown in stdout.read()


def test_latest_is_named_and_confirmed_and_is_no_training_of_a_run(monkeypatch):
    name = "projects/p/locations/l/customJobs/7"
    job = {"name": name, "displayName": "train", "labels": {RUN_LABEL: "m-1"}}
    monkeypatch.setattr(Kind, "get", lambda *_: job)
    said = r"latest is job 7 \(train\) of run m-1; .*trainyard runs cancel m-1, .*give 7"
    with pytest.raises(ResourceError, match=said):
        chosen(JOB, None, "latest", verb="cancel")
    assert chosen(JOB, None, "7", verb="cancel") is job
    assert chosen(JOB, None, "latest", verb="upload") is job, "without a terminal"
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or "n")
    with pytest.raises(ResourceError, match="nothing was changed"):
        chosen(JOB, None, "latest", verb="upload")
    assert asked == ["Upload job 7 (train) of run m-1? [y/N] "]


def test_a_last_column_that_does_not_fit_stands_below_its_row():
    table = TextTable(
        ("VERSION", "BY", "WHY"), [("1", "ann", "promoted: it is better"), ("2", "字", "")]
    )
    assert table_lines(table) == table_lines(table, width=36)
    assert table_lines(table)[1:] == ["1        ann  promoted: it is better", "2        字"]
    assert table_lines(table, width=20) == [
        "VERSION  BY",
        "1        ann",
        "    promoted: it is",
        "    better",
        "2        字",
    ]
