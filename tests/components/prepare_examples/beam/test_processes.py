"""Forked processes that prepare examples."""

import gc
import multiprocessing
import os
import signal
import time

import pytest

from components.prepare_examples.beam.processes import forked, result
from components.prepare_examples.errors import DataError
from vertex_local.tests.support.platform import IS_PORTABLE
from vertex_local.tests.support.seen import is_running
from vertex_local.tests.support.waiting import wait_until

KEY = "folder"


def run_all(function, items) -> list:
    """Return the function's results in the order of the items."""
    with forked(2, function, items, key=KEY):
        return [result(function, number, item, key=KEY) for number, item in enumerate(items)]


def assert_used(pids: set[int], *, count: int) -> None:
    """Check that all processes worked; where they are not forked, some may start too late."""
    assert len(pids) == count or (IS_PORTABLE and 1 <= len(pids) <= count)


def slow_for_some(number: int) -> tuple[int, int]:
    """Return the number and the process."""
    time.sleep(0.05 * (number % 3 == 0))
    return number, os.getpid()


@pytest.mark.parametrize("count", [2, 3])
def test_results_are_those_of_the_items_which_are_started_before_they_are_wanted(count):
    with forked(count, slow_for_some, range(20), key=KEY):
        numbers = [*range(10, 20), *range(10)]
        found = [result(slow_for_some, number, "?", key=KEY) for number in numbers]
        other = result(slow_for_some, 0, 5, key="another folder")
    assert [number for number, _ in found] == numbers
    assert_used({pid for _, pid in found}, count=count)
    assert other == (5, os.getpid()) == result(slow_for_some, 7, 5, key=KEY)
    assert multiprocessing.active_children() == []


def raise_error(number: int) -> None:
    raise FileNotFoundError(2, "no such file", f"{number}.png")


def test_an_error_is_raised_and_the_processes_exit():
    with pytest.raises(FileNotFoundError, match=r"0\.png"):
        run_all(raise_error, range(9))
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
    assert all(run_all(collect, range(8)))
    assert gc.isenabled()


def work_until_killed(pids) -> None:
    with forked(2, time.sleep, [60, 60], key=KEY):
        pids.send([child.pid for child in multiprocessing.active_children()])
        time.sleep(60)


def test_processes_exit_when_their_parent_is_killed():
    ours, theirs = multiprocessing.Pipe()
    parent = multiprocessing.get_context("fork").Process(target=work_until_killed, args=(theirs,))
    parent.start()
    try:
        assert ours.poll(30)
        pids = ours.recv()
        assert len(pids) == 2
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.join(30)
    wait_until(lambda: not any(map(is_running, pids)), "the exit of the processes")
    ours.close()
    theirs.close()


def start_and_interrupt() -> None:
    with forked(2, time.sleep, [600, 600, 600], key=KEY):
        raise KeyboardInterrupt


@pytest.mark.timeout(60)
def test_an_error_does_not_wait_for_items_in_progress():
    with pytest.raises(KeyboardInterrupt):
        start_and_interrupt()
    assert multiprocessing.active_children() == []


def end_process(item: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_is_named_with_what_to_do():
    with pytest.raises(DataError, match=r"was killed, .*--direct-workers 1"):
        run_all(end_process, ["a", "b"])
    assert multiprocessing.active_children() == []


def no_semaphore(*args):
    raise FileNotFoundError(2, "No such file or directory")  # as sem_open does


def test_without_shared_memory_this_process_does_the_work(monkeypatch, caplog):
    monkeypatch.setattr("multiprocessing.synchronize._multiprocessing.SemLock", no_semaphore)
    assert run_all(slow_for_some, [1]) == [(1, os.getpid())]
    assert "make /dev/shm a writable tmpfs" in caplog.text
