"""The journal of a run on a full disk, and with damaged lines."""

import logging
import resource
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from vertex_local.pipelines import journal
from vertex_local.pipelines import resource as pipelines
from vertex_local.pipelines.journal import Journal

pytestmark = pytest.mark.fast
ENDED = {"state": "FAILED", "error": "", "inputs": {}, "outputs": {}}


@contextmanager
def files_of_at_most(num_bytes):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_event_that_cannot_be_written_completely_leaves_no_part(tmp_path):
    writer = Journal(tmp_path)
    writer.write("first", text="a")
    size = (tmp_path / journal.FILE_NAME).stat().st_size
    with files_of_at_most(size + 40), pytest.raises(OSError, match="File too large"):
        writer.write("second", text="b" * 100)
    assert (tmp_path / journal.FILE_NAME).stat().st_size == size
    writer.write("third")
    assert [event["event"] for event in journal.read(tmp_path)] == ["first", "third"]


@pytest.mark.parametrize("line", [b'{"time": "2026", "ev{"time":', b"[]", b"\xff\0", b"{}", b""])
def test_a_damaged_line_is_skipped_and_named_once(tmp_path, line, caplog):
    path, writer = tmp_path / journal.FILE_NAME, Journal(tmp_path)
    writer.write("first")
    with path.open("ab") as file:
        file.write(line + b"\n")
    writer.write("task_ended", id=1, **ENDED)  # of a task whose start is the damaged line
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            events = journal.read(tmp_path)
            assert [event["event"] for event in events] == ["first", "task_ended"]
    assert journal.task_details(events) == []
    assert caplog.messages == [f"{path}: line 2 is not a JSON event; it is ignored"]


@pytest.mark.parametrize("content", [None, b""], ids=["missing", "empty"])
def test_the_lost_journal_of_an_ended_run_is_named_once(tmp_path, caplog, content):
    folder = tmp_path / "pipelines" / "r"
    folder.mkdir(parents=True)
    if content is not None:
        (folder / "events.jsonl").write_bytes(content)
    run = {"name": "projects/p/locations/l/pipelineJobs/r", "state": "PIPELINE_STATE_SUCCEEDED"}
    service = SimpleNamespace(root=tmp_path)
    for _ in range(2):
        assert pipelines.with_tasks(service, run) == run
    [message] = caplog.messages
    assert message.startswith(f"{folder / 'events.jsonl'} is missing or empty")
    assert "run it again" in message
