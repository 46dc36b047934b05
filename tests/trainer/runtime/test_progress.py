"""The progress line, formatted, parsed and drawn on a terminal."""

import io
import logging
import os

import pytest

from trainer.runtime.progress import Progress, format_progress, parse_progress
from trainer.task import TerminalHandler

pytestmark = pytest.mark.fast

LINE = "chief/0 step 300/1290 loss 0.0812 accuracy 0.9755 11,243 examples/s 11.4 ms/step 1:05 left"
PROGRESS = Progress(
    replica="chief/0",
    step=300,
    total_steps=1290,
    loss=0.0812,
    accuracy=0.9755,
    examples_per_second=11_243,
    step_ms=11.4,
    seconds_left=65,
)


def test_the_format_of_the_line():
    assert f"chief/0 {format_progress(PROGRESS)}" == LINE


@pytest.mark.parametrize("line", [LINE, f"2026-01-01T00:00:00Z {LINE}\n"])
def test_a_line_is_parsed(line):
    assert parse_progress(line) == PROGRESS


@pytest.mark.parametrize(
    "line", ["", "chief/0 resuming from step 300", LINE.removeprefix("chief/0 ")]
)
def test_other_lines_are_not_progress(line):
    assert parse_progress(line) is None


def test_a_loss_that_is_not_a_number_is_still_progress():
    progress = parse_progress(LINE.replace("loss 0.0812", "loss nan"))
    assert progress is not None
    assert progress.loss != progress.loss


def test_on_a_terminal_the_progress_line_is_redrawn(monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda **_: os.terminal_size((10, 24)))
    stream = io.StringIO()
    handler = TerminalHandler(stream)
    lines = [("starts", False), ("step 1/99 loss", True), ("step 50/99", True), ("ends", False)]
    for text, is_transient in lines:
        handler.emit(logging.makeLogRecord({"msg": text, "is_transient": is_transient}))
    assert stream.getvalue() == "starts\nstep 1/99\r\x1b[Kstep 50/9\r\x1b[Kends\n"
