"""Tables and JSON on stdout."""

import io
import sys

import pytest

from pipelines.command.actions import print_json
from pipelines.resources.table import TextTable, table_lines

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "größe €"), ("ascii", r"\u20ac")])
def test_letters_are_printed_as_they_are_if_stdout_has_them(monkeypatch, encoding, shown):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stdout)
    print_json({"label": "größe €"})
    stdout.seek(0)
    assert shown in stdout.read()


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
