"""Tables and JSON on stdout."""

import io
import sys

import pytest

from components.shared.vertex.labels import RUN_LABEL
from pipelines.command.actions import chosen, print_json
from pipelines.errors import ResourceError
from pipelines.resources.kinds import JOB, RUN
from pipelines.resources.table import TextTable, table_lines

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "größe €"), ("ascii", r"\u20ac")])
def test_letters_are_printed_as_they_are_if_stdout_has_them(monkeypatch, encoding, shown):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stdout)
    print_json({"label": "größe €"})
    stdout.seek(0)
    assert shown in stdout.read()


class FakeApi:
    """A service whose newest job and run are a run's."""

    parent = "projects/p/locations/l"

    def list_resources(self, collection, **_):
        name = {"customJobs": "7", "pipelineJobs": "m-1"}[collection]
        body = {"displayName": "train" if name == "7" else name, "labels": {RUN_LABEL: "m-1"}}
        return [{"name": f"{self.parent}/{collection}/{name}", "createTime": "1", **body}]

    def get(self, name):
        return self.list_resources(name.split("/")[-2])[0]

    find = get


def test_latest_is_named_and_confirmed_and_is_no_training_of_a_run(monkeypatch):
    said = r"latest is job 7 \(train\) of run m-1; .*trainyard runs cancel m-1, .*give 7"
    with pytest.raises(ResourceError, match=said):
        chosen(JOB, FakeApi(), "latest", verb="cancel")
    assert chosen(JOB, FakeApi(), "7", verb="cancel")["displayName"] == "train"
    assert chosen(RUN, FakeApi(), "latest", verb="delete")["displayName"] == "m-1", "no terminal"
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or "n")
    with pytest.raises(ResourceError, match="nothing was changed"):
        chosen(RUN, FakeApi(), "latest", verb="delete")
    assert asked == ["Delete run m-1? [y/N] "]


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
