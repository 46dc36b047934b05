"""Forked processes that prepare examples."""

import gc
import multiprocessing
import os
import signal
import time
from multiprocessing import heap

import pytest

from components.prepare_examples.beam.processes import results
from components.prepare_examples.errors import DataError
from vertex_local.tests.support.platform import IS_PORTABLE
from vertex_local.tests.support.seen import is_running
from vertex_local.tests.support.waiting import wait_until


def assert_used(pids: set[int], *, count: int) -> None:
    """Check that all processes worked; where they are not forked, some may start too late."""
    assert len(pids) == count or (IS_PORTABLE and 1 <= len(pids) <= count)


def slow_for_some(number: int) -> tuple[int, int]:
    """Return the number and the process."""
    time.sleep(0.05 * (number % 3 == 0))
    return number, os.getpid()


@pytest.mark.parametrize("count", [2, 3])
def test_results_are_those_of_the_items_in_their_order(count):
    found = results(slow_for_some, range(20), count=count)
    assert [number for number, _ in found] == list(range(20))
    assert_used({pid for _, pid in found}, count=count)
    assert multiprocessing.active_children() == []


def raise_error(number: int) -> None:
    raise FileNotFoundError(2, "no such file", f"{number}.png")


def test_an_error_is_raised_and_the_processes_exit():
    with pytest.raises(FileNotFoundError, match=r"0\.png"):
        results(raise_error, range(9), count=2)
    assert multiprocessing.active_children() == []


class OfOneProcess:
    """Crashes another process that destroys it, as functions of TensorFlow do."""

    def __init__(self):
        self.itself, self.pid = self, os.getpid()

    def __del__(self):
        if os.getpid() != self.pid:
            os.kill(os.getpid(), signal.SIGSEGV)


def collect(number: int) -> bool:
    gc.collect()
    return gc.isenabled()


def test_garbage_of_the_parent_is_not_collected_in_the_processes():
    for _ in range(10):
        OfOneProcess()  # garbage, as it refers to itself
    assert all(results(collect, range(8), count=2))
    assert gc.isenabled()


def tell_and_sleep(pids) -> None:
    pids.send(os.getpid())
    time.sleep(60)


def work_until_killed(pids) -> None:
    results(tell_and_sleep, [pids, pids], count=2)


def test_processes_exit_when_their_parent_is_killed():
    ours, theirs = multiprocessing.Pipe()
    parent = multiprocessing.get_context("fork").Process(target=work_until_killed, args=(theirs,))
    parent.start()
    try:
        pids = []
        while len(pids) < 2:
            assert ours.poll(30)
            pids.append(ours.recv())
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.join(30)
    wait_until(lambda: not any(map(is_running, pids)), "the exit of the processes")
    ours.close()
    theirs.close()


def interrupt(item: str) -> None:
    if item == "first":
        raise KeyboardInterrupt
    time.sleep(600)


@pytest.mark.timeout(60)
def test_an_error_does_not_wait_for_items_in_progress():
    with pytest.raises(KeyboardInterrupt):
        results(interrupt, ["first", "second", "third"], count=2)
    assert multiprocessing.active_children() == []


def end_process(item: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_is_named_with_what_to_do():
    with pytest.raises(DataError, match=r"was killed, .*--direct-workers 1"):
        results(end_process, ["a", "b"], count=2)
    assert multiprocessing.active_children() == []


def test_without_shared_memory_this_process_does_the_work(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(heap.Arena, "_dir_candidates", [str(tmp_path / "missing")])
    monkeypatch.setattr(heap.BufferWrapper, "_heap", heap.Heap())
    assert results(slow_for_some, [1], count=2) == [(1, os.getpid())]
    assert "make /dev/shm a writable tmpfs" in caplog.text
