import os
import signal
from types import SimpleNamespace

import pytest
from rich.console import Console

from components.shared.vertex.errors import VertexError
from pipelines.runs import execute
from pipelines.runs.execute import interrupted_once

pytestmark = pytest.mark.fast

SPEC = {"root": {"dag": {"tasks": {}}}, "components": {}}


@pytest.fixture(autouse=True)
def restored_handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_interrupts_and_later_ones_are_ignored(number):
    signal.signal(signal.SIGINT, signal.default_int_handler)

    with pytest.raises(KeyboardInterrupt), interrupted_once():
        _send(number, signal.SIGINT, signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_background_job_ignores_sigint_and_ends_on_sigterm():
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    with pytest.raises(KeyboardInterrupt), interrupted_once():
        _send(signal.SIGINT, signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


class SlowService:
    """A service that lists a run only after some requests, and cancels it at once."""

    parent = "projects/p/locations/l"
    min_poll_seconds = 0.0

    def __init__(self, *, num_without: int):
        self._num_without = num_without
        self.state = "RUNNING"

    def find(self, _name):
        self._num_without -= 1
        return self.get(_name) if self._num_without < 0 else None

    def get(self, _name):
        if self._num_without > 0:
            raise VertexError(code=404, status="NOT_FOUND", message="no such run")
        return {"state": f"PIPELINE_STATE_{self.state}"}

    def post(self, path, _body):
        assert path.endswith("/pipelineJobs/r-1:cancel")
        self.state = "CANCELLED"

    def list_resources(self, *_, **__):
        return []


@pytest.mark.parametrize(
    ("num_without", "state"), [(0, "CANCELLED"), (3, "CANCELLED"), (99, "RUNNING")]
)
def test_a_run_that_is_created_after_the_interruption_is_cancelled(num_without, state, monkeypatch):
    service, now = SlowService(num_without=num_without), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda seconds: now.append(now.pop() + seconds))

    def interrupted():
        raise KeyboardInterrupt

    submission = SimpleNamespace(run="r-1", package=SimpleNamespace(spec=SPEC), request={})
    result = execute.show_to_end(
        service, submission, console=Console(), create=interrupted, wants_cancel=lambda: True
    )

    assert result.is_interrupted
    assert result.summary.state == "CANCELLED"
    assert service.state == state


def _send(*numbers):
    """Send each signal to this process, the rest also if one raises."""
    first, *others = numbers
    try:
        os.kill(os.getpid(), first)
    finally:
        if others:
            _send(*others)


def test_a_summary_that_cannot_be_written_does_not_hide_the_result(monkeypatch, tmp_path, caplog):
    def full(_folder):
        raise OSError(28, "No space left on device", ".latest-7")

    result = SimpleNamespace(summary=SimpleNamespace(run="run-1", write=full), view=None)
    target = SimpleNamespace(run_dir=lambda run: tmp_path / run)
    execute.write_result(SlowService(num_without=0), result, target=target)
    assert "the summary and report of run-1 are incomplete: [Errno 28]" in caplog.text
