"""Progress of a prediction of files in the log."""

import logging

import pytest

from pipelines.predictions import predict

pytestmark = pytest.mark.fast


def test_a_log_has_the_rows_and_their_rate(monkeypatch, caplog):
    monkeypatch.setattr(predict, "LINE_SECONDS", -1.0)
    progress = predict.RowRate(2_000_000)
    with caplog.at_level(logging.INFO):
        progress.advance(1000)
        progress.advance(500)

    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(" rows,")[0] for line in lines] == [
        "predicting 2.0 MB: 1,000",
        "predicting 2.0 MB: 1,500",
    ]
    assert all(line.endswith(" rows/s") for line in lines)
