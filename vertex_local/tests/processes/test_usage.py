"""The usage of replicas over time: meters, and the file that keeps their samples."""

import json
import os

import pytest

from vertex_local.processes.usage.curve import CURVE_FILE, MAX_SAMPLES, CurveWriter, read_curves
from vertex_local.processes.usage.meters import ProcessTrees, Reading

pytestmark = pytest.mark.fast

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class FakeProc:
    """A /proc with the files that the meter reads."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "self").mkdir()

    def set(self, pid, *, parent, session, ticks=(0, 0, 0, 0), pages=0, state="S"):
        # The name of a program may contain any character.
        fields = [state, parent, parent, session, 0, -1, 0, 0, 0, 0, 0, *ticks, *[0] * 6, pages]
        (self.folder / str(pid)).mkdir(exist_ok=True)
        text = " ".join(map(str, [pid, "(a) b (c)", *fields, 0]))
        (self.folder / str(pid) / "stat").write_text(text)

    def end(self, pid):
        (self.folder / str(pid) / "stat").unlink()
        (self.folder / str(pid)).rmdir()


@pytest.fixture
def proc(tmp_path):
    return FakeProc(tmp_path)


def test_descendants_of_a_process_count(proc, tmp_path):
    proc.set(1, parent=0, session=1, ticks=(900, 0, 0, 0), pages=900)
    proc.set(10, parent=1, session=10, ticks=(TICKS, TICKS, TICKS, 0), pages=2)
    proc.set(11, parent=10, session=10, ticks=(0, 2 * TICKS, 0, 0), pages=3)
    proc.set(5, parent=11, session=5, ticks=(TICKS, 0, 0, 0), pages=1)  # in its own session
    proc.set(20, parent=1, session=20, pages=7)
    trees = ProcessTrees(tmp_path)
    expected = {10: Reading(6.0, 6 * PAGE), 20: Reading(0.0, 7 * PAGE)}
    assert trees.read([10, 20, 30]) == expected
    proc.end(11)
    # An orphan stays in its tree; a new one is found by its session.
    proc.set(5, parent=1, session=5, ticks=(TICKS, 0, 0, 0), pages=1)
    proc.set(12, parent=1, session=10, ticks=(0, 0, 0, TICKS), pages=1)
    assert trees.read([10, 20]) == {10: Reading(5.0, 4 * PAGE), 20: Reading(0.0, 7 * PAGE)}
    proc.end(20)
    proc.set(30, parent=1, session=30)
    assert trees.read([10, 20, 30]) == {10: Reading(5.0, 4 * PAGE), 30: Reading(0.0, 0)}
    proc.set(30, parent=1, session=30, state="Z")
    assert trees.read([10, 20, 30]).keys() == {10}
    trees.close()


def test_this_process_and_its_child_are_measured():
    import subprocess
    import sys

    code = "import sys; sum(range(10**7)); print('done', flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    trees = ProcessTrees()
    try:
        assert child.stdout.readline() == b"done\n"
        [reading] = trees.read([child.pid]).values()
    finally:
        trees.close()
        child.communicate(timeout=30)
    assert reading.cpu_seconds > 0.05
    assert reading.memory_bytes > 4_000_000


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_curve_holds_cores_and_memory_of_each_second(tmp_path, clock):
    writer = CurveWriter(tmp_path, ["chief/0", "worker/0"], clock=clock)
    readings = {}
    for cpu in (0.5, 2.5, 2.0):
        clock.now += 0.3
        writer.sample(pytest.fail)  # too early
        clock.now += 0.7
        readings["chief/0"] = Reading(cpu, int(10 * cpu))
        writer.sample(lambda: dict(readings))
    clock.now += 2
    writer.sample(lambda: {"worker/0": Reading(1.0, 7)})
    curves = read_curves(tmp_path)
    assert curves.seconds == [1, 2, 3, 5]
    assert curves.replicas["chief/0"].cores == [0.5, 2.0, 0.0, None]
    assert curves.replicas["chief/0"].memory_bytes == [5, 25, 20, None]
    assert curves.replicas["worker/0"].cores == [None, None, None, 0.5]
    assert curves.started


@pytest.mark.parametrize("num_seconds", [600, 601, 1800, 36_000])
def test_a_job_of_any_length_has_a_bounded_curve(tmp_path, clock, num_seconds):
    writer = CurveWriter(tmp_path, ["chief/0"], clock=clock)
    num_reads = 0
    for second in range(1, num_seconds + 1):
        clock.now = float(second)

        def read():
            nonlocal num_reads
            num_reads += 1
            # Half a core, and a peak of memory in the second minute.
            return {"chief/0": Reading(clock.now / 2, 900 if 60 < clock.now < 120 else 100)}

        writer.sample(read)
    curves = read_curves(tmp_path)
    assert MAX_SAMPLES / 2 <= len(curves.seconds) <= MAX_SAMPLES
    assert curves.seconds == sorted(curves.seconds)
    assert curves.seconds[-1] > num_seconds - num_seconds / 100 - 1
    assert curves.replicas["chief/0"].cores == pytest.approx([0.5] * len(curves.seconds))
    assert max(curves.replicas["chief/0"].memory_bytes) == 900
    assert num_reads <= num_seconds
    size = (tmp_path / CURVE_FILE).stat().st_size
    assert size < 40 * MAX_SAMPLES


@pytest.mark.parametrize("text", ["", "{", "{}", '{"names": ["a"], "started": ""}\n[1]\n', "[]\n"])
def test_a_damaged_curve_is_empty(tmp_path, text):
    (tmp_path / CURVE_FILE).write_text(text)
    assert read_curves(tmp_path).replicas == {}


def test_an_incomplete_line_is_not_read(tmp_path, clock):
    writer = CurveWriter(tmp_path, ["a"], clock=clock)
    for clock.now in (1.0, 2.0):
        writer.sample(lambda: {"a": Reading(1.0, 5)})
    path = tmp_path / CURVE_FILE
    assert [json.loads(line) for line in path.read_text().splitlines()][1:] == [
        [1.0, 1.0, 5],
        [2.0, 0.0, 5],
    ]
    path.write_text(path.read_text()[:-4])
    assert read_curves(tmp_path).replicas["a"].cores == [1.0]


def test_a_full_disk_does_not_end_a_job(tmp_path, clock):
    writer = CurveWriter(tmp_path / "gone", ["a"], clock=clock)
    clock.now = 1.0
    writer.sample(lambda: {"a": Reading(1.0, 5)})
    assert read_curves(tmp_path / "gone").seconds == []
