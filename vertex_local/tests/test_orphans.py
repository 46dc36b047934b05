"""Leftovers of killed processes of a service."""

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from vertex_local.machine import files, linux, namespaces
from vertex_local.processes import group as processes
from vertex_local.processes import leftovers
from vertex_local.processes.group import ProcessSpec
from vertex_local.processes.launch import Launch
from vertex_local.processes.warm import Warm
from vertex_local.tests.support.kills import kill_all
from vertex_local.tests.support.pid_namespaces import no_pid_namespaces, start_refused
from vertex_local.tests.support.seen import await_end_of, running, supervisor_of
from vertex_local.tests.support.sleeping_processes import (
    SHELL_CASES,
    SHELLS,
    shell_job,
    submit_sleeps,
)
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(60)

NOBODY = 65534
PR_SET_DUMPABLE = 4
SERVICE = """
import sys, time
from pathlib import Path
from vertex_local.processes import group as processes
folder = Path(sys.argv[1])
spec = processes.ProcessSpec("a", sys.argv[2:], {}, None, folder / "log")
processes.start(folder, [spec], timeout_seconds=None)
time.sleep(60)
"""


@pytest.fixture
def marker(request) -> str:
    """Return an argument for `sleep` that no other process has."""
    return f"300.{time.time_ns() % 10**9:09d}{os.getpid()}"


@pytest.fixture
def start(tmp_path):
    """Function that starts a group of one process and returns the group and its log."""
    groups = []

    def start_group(*command, launch=Launch(), **options):  # noqa: B008
        log = tmp_path / "replica.log"
        spec = ProcessSpec(
            name="chief/0", command=command, env={}, cwd=str(tmp_path), log_path=log, **options
        )
        groups.append(
            processes.start(tmp_path / "group", [spec], timeout_seconds=30, launch=launch)
        )
        return groups[-1], log

    yield start_group
    for group in groups:
        group.stop(grace_seconds=0)


def await_sleeps(marker: str, count: int = 2) -> None:
    wait_until(lambda: len(running(marker)) >= count, f"{count} times `sleep {marker}`")


@pytest.mark.parametrize("shell", SHELL_CASES)
def test_nothing_survives_a_killed_supervisor(start, marker, shell):
    group, _ = start("sh", "-c", shell.format(marker))
    await_sleeps(marker)

    os.kill(supervisor_of(group), signal.SIGKILL)

    state = group.wait(20)
    assert state["state"] == "failed"
    assert "supervisor ended with code -9" in state["message"]
    assert not running(marker)
    assert not [child for child in psutil.Process().children() if is_dead_and_namespaced(child)]


def is_dead_and_namespaced(process: psutil.Process) -> bool:
    with suppress(OSError, psutil.NoSuchProcess):  # a thread of another test may reap it
        status = Path(f"/proc/{process.pid}/status").read_text()
        ids = next(line for line in status.splitlines() if line.startswith("NSpid:"))
        return process.status() == psutil.STATUS_ZOMBIE and len(ids.split()) > 2
    return False


@pytest.mark.parametrize("shell", SHELL_CASES)
def test_nothing_survives_a_service_killed_with_its_supervisor(tmp_path, marker, shell):
    command = ["sh", "-c", shell.format(marker)]
    folder = tmp_path / "group"
    with subprocess.Popen([sys.executable, "-c", SERVICE, str(folder), *command]) as service:
        await_sleeps(marker)
        [supervisor] = psutil.Process(service.pid).children()

        service.send_signal(signal.SIGSTOP)  # so that it cannot react to the next kill
        supervisor.kill()
        service.kill()

    await_end_of(marker)


@pytest.mark.linux("forks of the warm process")
def test_nothing_survives_a_killed_supervisor_that_was_forked(start, marker, tmp_path):
    warm = Warm([["tempfile"]], log_path=tmp_path / "warm.log")
    warm.start()
    warm.await_ready(30)
    group, _ = start("sh", "-c", SHELLS["daemon"].format(marker), launch=Launch(warm=warm))
    await_sleeps(marker)

    os.kill(supervisor_of(group), signal.SIGKILL)

    assert group.wait(20)["state"] == "failed"
    assert not running(marker)
    warm.close()


@pytest.mark.linux("PID namespaces")
def test_a_group_whose_init_is_killed_fails_with_a_message(start, marker):
    group, _ = start("sh", "-c", SHELLS["daemon"].format(marker), is_primary=True)
    await_sleeps(marker)
    children = psutil.Process(supervisor_of(group)).children()
    [init] = [child for child in children if is_init(child.pid)]

    init.kill()

    state = group.wait(20)
    assert state["state"] == "failed"
    assert not running(marker)


def is_init(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return any(line.startswith("NSpid:") and line.endswith("\t1") for line in status.splitlines())


@pytest.mark.linux("PID namespaces")
def test_proc_has_the_pids_of_the_namespace(start):
    code = "import os; print(os.getpid() == int(os.readlink('/proc/self')))"
    group, log = start("python", "-c", code)
    assert group.wait(20)["has_pid_namespace"]
    assert log.read_text() == "True\n"


@pytest.mark.linux("PID namespaces")
def test_groups_have_different_pids(start, tmp_path):
    numbers = set()
    for _ in range(3):
        group, log = start("python", "-c", "import os; print(os.getpid())")
        assert group.wait(20)["state"] == "succeeded"
        numbers |= set(log.read_text().split())
    assert len(numbers) == 3


def become_nobody() -> None:
    """Give up root in this process, which is a fork."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as it is after an exec


def assert_children_find_themselves(*, is_namespaced: bool) -> None:
    outside = os.readlink("/proc/self/ns/pid") if not is_namespaced else ""
    if child := os.fork():
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return
    is_found = os.readlink("/proc/self") == str(os.getpid())
    is_as_said = is_namespaced or os.readlink("/proc/self/ns/pid") == outside
    os._exit(0 if is_found and is_as_said else 1)


@pytest.mark.linux("PID namespaces")
@pytest.mark.parametrize("user", ["this", "nobody"])
def test_children_are_in_a_namespace_that_ends_with_its_init(user):
    def enter() -> None:
        if user == "nobody":
            become_nobody()
        init = namespaces.contain(Path())
        assert_children_find_themselves(is_namespaced=True)
        child = os.spawnlp(os.P_NOWAIT, "setsid", "setsid", "sleep", "60")
        os.kill(init, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    linux.try_in_fork(enter)


@pytest.mark.linux("PID namespaces")
def test_a_namespace_that_cannot_be_prepared_changes_nothing(monkeypatch):
    def refuse() -> None:
        raise PermissionError(errno.EACCES, "mount(2) was refused")

    def enter() -> None:
        with pytest.raises(PermissionError):
            namespaces.contain(Path())
        assert_children_find_themselves(is_namespaced=False)

    monkeypatch.setattr(namespaces, "_prepare", refuse)
    linux.try_in_fork(enter)


@pytest.mark.linux("PID namespaces")
def test_a_container_that_masks_proc_changes_nothing():
    """Kubernetes allows user namespaces, but the kernel does not allow mounting /proc there."""

    def enter() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        linux.unshare(namespaces.CLONE_NEWNS)
        flags = namespaces.MS_REC | namespaces.MS_SLAVE
        linux.check(libc.mount(b"none", b"/", None, flags, None), "mount(2)")
        linux.check(libc.mount(b"none", b"/proc/fs", b"tmpfs", 0, None), "mount(2)")
        become_nobody()
        with pytest.raises(PermissionError):
            namespaces.contain(Path())
        assert_children_find_themselves(is_namespaced=False)

    if os.geteuid():
        pytest.skip("only root can mask /proc")
    linux.try_in_fork(enter)


@pytest.fixture
def refusing():
    with no_pid_namespaces() as words:
        yield words


@pytest.fixture
def refused(own_service, refusing):
    """A service, restarted where the kernel refuses PID namespaces."""
    own_service.stop()
    start_refused(own_service, refusing)
    return own_service


@pytest.mark.linux("PID namespaces")
@pytest.mark.parametrize(
    ("who", "shell"), [("service and supervisors", "own-session"), ("all", "child")]
)
def test_without_namespaces_the_next_start_ends_leftover_processes(
    refused, refusing, marker, who, shell
):
    refused.do("POST", "customJobs", shell_job(SHELLS[shell].format(marker)))
    await_sleeps(marker)
    service = psutil.Process(refused.process.pid)
    if who == "all":
        kill_all(refused)
    else:
        supervisors = service.children()
        service.suspend()
        for process in (*supervisors, service):
            process.kill()
        refused.process.wait(20)
        wait_until(lambda: running(marker), "an orphan: else this would show nothing")

    start_refused(refused, refusing)

    assert not running(marker)
    [job] = refused.do("GET", "customJobs")["customJobs"]
    assert job["state"] == "JOB_STATE_FAILED"


def test_a_start_ends_no_process_of_another_root(own_service, tmp_path):
    environment = {**os.environ, leftovers.ROOT_VARIABLE: f"{own_service.root}-2"}
    with subprocess.Popen(["sleep", "60"], env=environment) as stranger:
        own_service.stop()
        own_service.start()
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize(
    "preload",
    [
        pytest.param([], id="new"),
        pytest.param(
            ["--preload", "kfp.local"], id="forked", marks=pytest.mark.linux("safe forks")
        ),
    ],
)
def test_a_pipeline_killed_as_a_whole_leaves_no_process_and_no_folder(
    temp_folder, own_service, marker, tmp_path, preload
):
    own_service.stop()
    own_service.options = tuple(preload)
    own_service.start()
    submit_sleeps(own_service, marker, tmp_path)
    await_sleeps(marker)
    assert list(temp_folder.iterdir())

    kill_all(own_service)

    await_end_of(marker)
    own_service.options = ()
    own_service.start()
    [of_service] = temp_folder.iterdir()
    assert list(of_service.iterdir()) == []
    own_service.stop()
    assert list(temp_folder.iterdir()) == []


@pytest.mark.parametrize("kind", ["foreign name", "link", "relative"])
def test_a_start_keeps_folders_of_others(tmp_path, kind):
    root, kept = (
        tmp_path / "root",
        tmp_path / ("mine" if kind == "foreign name" else "vertex-local-mine"),
    )
    root.mkdir()
    kept.mkdir()
    (kept / "file").touch()
    target = kept
    if kind == "link":
        target = tmp_path / "vertex-local-1234"
        target.symlink_to(kept)
    (root / files.TEMP_LINK).symlink_to(
        os.path.relpath(kept, root) if kind == "relative" else target
    )

    files.remove_temp_dir(root)

    assert (kept / "file").exists()
