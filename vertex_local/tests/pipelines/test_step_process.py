"""The output of a step, which must be read to its end whatever becomes of the copies."""

import io
import sys

import pytest

from vertex_local.pipelines import step_process

pytestmark = pytest.mark.timeout(60)


def full_device() -> io.TextIOWrapper:
    return io.TextIOWrapper(open("/dev/full", "wb", buffering=0), "utf-8", write_through=True)


def ascii_only() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "ascii")


@pytest.mark.parametrize("stdout", [full_device, ascii_only])
def test_a_step_does_not_wait_for_a_log_that_cannot_be_written(tmp_path, monkeypatch, stdout):
    copy = stdout()
    monkeypatch.setattr(sys, "stdout", copy)
    code = step_process.run(
        ["python", "-c", "print(chr(228) * 1_000_000)"],
        env={"PYTHONIOENCODING": "utf-8"},
        log_path=tmp_path / "step.log",
        temp_dir=tmp_path / "temp",
        must_stop=lambda: False,
    )
    copy.close()
    assert code == 0
    assert (tmp_path / "step.log").read_text() == "ä" * 1_000_000 + "\n"


def test_the_last_lines_of_a_failed_step_are_in_its_error_if_its_log_cannot_be_written(tmp_path):
    (tmp_path / "step.log").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"code 1, and .* cannot be written\. Last lines:\nthe cause"):
        step_process.run(
            ["python", "-c", "print('the cause'); raise SystemExit(1)"],
            env={},
            log_path=tmp_path / "step.log",
            temp_dir=tmp_path / "temp",
            must_stop=lambda: False,
        )
