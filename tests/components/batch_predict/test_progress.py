"""Progress of a batch prediction in the log."""

import logging

import pytest

from components.batch_predict import part

pytestmark = pytest.mark.fast


def test_a_log_has_the_rows_and_their_rate(monkeypatch, caplog):
    monkeypatch.setattr(part, "LINE_SECONDS", -1.0)
    part.advance(5)  # of another process: nothing follows
    with caplog.at_level(logging.INFO), part.shown(2_000_000):
        part.advance(1000)
        part.advance(500)

    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(" rows,")[0] for line in lines] == [
        "predicting 2.0 MB: 1,000",
        "predicting 2.0 MB: 1,500",
    ]
    assert all(line.endswith(" rows/s") for line in lines)
