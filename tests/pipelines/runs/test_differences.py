"""Differences between two runs."""

import dataclasses

import pytest

from components.shared.run_summary.summary import summarize
from pipelines.resources.table import table_lines
from pipelines.runs.differences import compare, differences_json, differences_table
from tests.support.data.run_records import LONG_NAME, promoted

pytestmark = pytest.mark.fast


def test_two_runs_differ_in_settings_data_code_and_metrics():
    first = summarize(promoted())
    second = dataclasses.replace(
        summarize(promoted(0.99, train='{"epochs": 7}')), code_digest="ba9876543210"
    )
    found = compare(first, second)

    assert [(one.name, one.first, one.second) for one in found] == [
        ("code_digest", "0123456789ab", "ba9876543210"),
        ("train.batch_size", 128, None),
        ("train.epochs", 5, 7),
        ("accuracy", 0.9871, 0.99),
    ]
    rows = differences_table(found).rows
    assert rows[2] == ("train.epochs", "5", "7", "+2")
    assert rows[3] == ("test accuracy", "0.9871", "0.99", "+0.0029")
    assert rows[1] == ("train.batch_size", "128", "-", "")
    assert compare(first, first) == []
    assert len(compare(first, first, has_all=True)) > len(found)
    content = differences_json(first, second, found)
    assert content["settings"]["train.epochs"] == {"a": 5, "b": 7}
    assert content["a"] == LONG_NAME
    assert all(len(line) <= 80 for line in table_lines(differences_table(compare(first, second))))
