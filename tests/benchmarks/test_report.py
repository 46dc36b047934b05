"""The line that a benchmark prints."""

import json

import pytest

from benchmarks.support.report import report


def line_of(capsys, **arguments):
    report("a way against another", unit="rows/s", **arguments)
    return json.loads(capsys.readouterr().out)


def test_a_ratio_is_taken_within_a_round(capsys):
    found = line_of(capsys, ours=[20.0, 9.0, 33.0], theirs=[10.0, 3.0, 11.0])
    assert found == {
        "name": "a way against another",
        "ours": 20.0,
        "theirs": 10.0,
        "unit": "rows/s",
        "ratio": 3.0,
    }


def test_a_ratio_above_one_is_better_also_of_times(capsys):
    found = line_of(capsys, ours=2.0, theirs=3.0, lower_is_better=True, rows=7)
    assert found["ratio"] == 1.5
    assert found["rows"] == 7


def test_rounds_of_both_ways_belong_together(capsys):
    with pytest.raises(ValueError, match="shorter"):
        line_of(capsys, ours=[1.0, 2.0, 3.0], theirs=[1.0, 2.0])
