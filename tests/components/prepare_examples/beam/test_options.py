import logging

import pytest

from components.errors import errors_in_one_line
from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.errors import DataError
from trainer.errors import ConfigError


@pytest.mark.parametrize(
    "error",
    [
        DataError("data.csv is not whole;\nget it again"),
        PermissionError(13, "no access", "data.csv"),
        ConfigError("files is 'data.csv'"),
    ],
    ids=["data", "system", "setting"],
)
def test_a_step_exits_with_one_line_despite_beams_traceback(tmp_path, caplog, error):
    def work(_: int) -> dict:
        raise error

    caplog.set_level(logging.INFO)
    with pytest.raises(SystemExit) as ended, errors_in_one_line():
        run_pipeline([1], work, lambda _: {}, flags=(), folder=tmp_path)

    said = str(ended.value.code)
    assert said.startswith("error: ")
    assert "data.csv" in said
    assert "while running" not in said
    assert "\n" not in said
    assert [record for record in caplog.records if record.exc_info] == []
