"""The progress line, and how steps are cut into calls."""

import io
import logging
import os

import pytest

from trainer.runtime.console import TerminalHandler
from trainer.runtime.progress import Progress, format_progress, parse_progress
from trainer.strategies.calls import chunks

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


def test_the_line_is_the_contract():
    assert f"chief/0 {format_progress(PROGRESS)}" == LINE


@pytest.mark.parametrize("line", [LINE, f"2026-01-01T00:00:00Z {LINE}\n"])
def test_a_line_is_read_back(line):
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


@pytest.mark.parametrize("num_workers", [1, 2, 7])
@pytest.mark.parametrize("steps_per_call", [1, 20, 50])
@pytest.mark.parametrize(("start", "stop"), [(0, 1290), (0, 1), (37, 500), (5, 5)])
def test_chunks_cover_each_step_once(start, stop, steps_per_call, num_workers):
    cut = list(chunks(start, stop, steps_per_call=steps_per_call, num_workers=num_workers))
    steps = [step for first, count in cut for step in range(first, first + count)]
    assert steps == list(range(start, stop))
    assert all(1 <= count <= steps_per_call for _, count in cut)


def test_on_a_terminal_one_line_of_progress_is_drawn_anew(monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((10, 24)))
    stream = io.StringIO()
    handler = TerminalHandler(stream)
    lines = [("starts", False), ("step 1/99 loss", True), ("step 50/99", True), ("ends", False)]
    for text, is_passing in lines:
        handler.emit(logging.makeLogRecord({"msg": text, "is_passing": is_passing}))
    assert stream.getvalue() == "starts\nstep 1/99\r\x1b[Kstep 50/9\r\x1b[Kends\n"


@pytest.mark.parametrize("num_workers", [1, 2])
def test_chunks_end_at_each_cut(num_workers):
    cut = list(chunks(5, 200, steps_per_call=50, num_workers=num_workers, cuts=(3, 70, 71, 400)))
    assert sum(count for _, count in cut) == 195
    assert {70, 71} <= {first for first, _ in cut}


def test_the_last_chunks_of_several_workers_are_small():
    counts = [count for _, count in chunks(0, 1000, steps_per_call=50, num_workers=2)]
    assert counts[0] == 50
    assert counts[-2:] == [1, 1]
