"""Real groups of small processes: how they end, and that nothing of them is left."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from vertex_local.processes import group as processes
from vertex_local.processes.group import Group
from vertex_local.processes.launch import Launch
from vertex_local.tests.support.seen import is_running, supervisor_of
from vertex_local.tests.support.waiting import wait_for_text, wait_until

pytestmark = pytest.mark.timeout(60)

COLD = Launch()  # supervisors that are new processes
SLEEP = "import time; time.sleep(60)"
IGNORE_SIGTERM = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""
GRANDCHILD = """
import subprocess, sys, time
command = [sys.executable, "-c", "import time; time.sleep(60)"]
child = subprocess.Popen(command, start_new_session={})
print("grandchild", child.pid, flush=True)
{}
"""


def pids(group: Group) -> list[int]:
    return [replica["pid"] for replica in group.state()["replicas"].values() if replica["pid"]]


def assert_ended(*pids: int) -> None:
    wait_until(lambda: not any(map(is_running, pids)), f"the end of {pids}")


def test_the_primary_decides_and_everything_else_ends(spec, run):
    group = run(
        spec("chief/0", "print('trained')"),
        spec("worker/0", SLEEP),
        spec("ps/0", SLEEP),
        launch=COLD,
    )
    state = group.wait(30)
    assert state["state"] == "succeeded"
    assert state["message"] == ""
    assert state["replicas"]["chief/0"]["exit_code"] == 0
    assert state["replicas"]["chief/0"]["state"] == "succeeded"
    assert state["replicas"]["ps/0"]["state"] == "ended"
    assert_ended(*pids(group), supervisor_of(group))


def test_without_a_primary_all_must_succeed(spec, run, tmp_path):
    group = run(spec("a", "print('1')"), spec("b", "import time; time.sleep(0.3); print('2')"))
    assert group.wait(30)["state"] == "succeeded"
    assert (tmp_path / "logs" / "b.log").read_text() == "2\n"


def test_a_crash_ends_the_group_and_its_error_has_the_last_lines(spec, run):
    code = "import sys; [print('line', i) for i in range(100)]; sys.exit('no such column: fare')"
    group = run(spec("chief/0", SLEEP), spec("worker/1", code))
    state = group.wait(30)
    assert state["state"] == "failed"
    first, *lines = state["message"].split("\n")
    assert "worker/1 exited with code 1" in first
    assert lines == [f"line {i}" for i in range(81, 100)] + ["no such column: fare"]
    assert state["replicas"]["worker/1"]["state"] == "failed"
    assert state["replicas"]["chief/0"]["state"] == "ended"
    assert_ended(*pids(group))


def test_a_service_that_crashes_fails_the_group_with_a_message_of_limited_length(spec, run):
    code = "print('x' * 1_000_000); raise SystemExit(255)"
    message = run(spec("chief/0", SLEEP), spec("ps/0", code)).wait(30)["message"]
    assert message.startswith("ps/0 exited with code 255")
    assert len(message) < 5000


def test_a_killed_replica_is_the_cause_even_if_others_crash_with_it(spec, run):
    group = run(spec("chief/0", SLEEP), spec("worker/1", SLEEP))
    wait_until(lambda: len(pids(group)) == 2, "2 processes")
    os.kill(pids(group)[1], signal.SIGKILL)
    state = group.wait(30)
    assert state["state"] == "failed"
    assert re.match(r"worker/1 .*137.*SIGKILL", state["message"])


def test_the_timeout_names_the_processes_that_still_run(spec, run):
    group = run(spec("ps/0", ""), spec("worker/1", SLEEP), timeout_seconds=2)
    state = group.wait(30)
    assert state["state"] == "timed_out"
    assert re.search(r"timeout of 2 s.*worker/1", state["message"])
    assert "ps/0" not in state["message"]
    assert_ended(*pids(group))


def test_stop_kills_processes_that_ignore_sigterm(spec, run, tmp_path):
    group = run(spec("chief/0", IGNORE_SIGTERM))
    wait_for_text(tmp_path / "logs" / "chief-0.log", "ready")
    before = time.monotonic()
    state = group.stop(grace_seconds=0.5)
    assert time.monotonic() - before > 0.4
    assert state["state"] == "cancelled"
    assert state["replicas"]["chief/0"]["exit_code"] == 137
    assert_ended(*pids(group))


def test_stop_gives_time_to_clean_up(spec, run, tmp_path):
    code = """
import signal, sys, time
def end(*_):
    print("checkpoint written", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(60)
"""
    group = run(spec("chief/0", code))
    log = tmp_path / "logs" / "chief-0.log"
    wait_for_text(log, "ready")
    assert group.stop(grace_seconds=20)["state"] == "cancelled"
    assert "checkpoint written" in log.read_text()


def test_stopping_twice_and_after_the_end_changes_nothing(spec, run):
    group = run(spec("chief/0", "print(1)"))
    assert group.wait(30)["state"] == "succeeded"
    assert group.stop()["state"] == "succeeded"
    assert group.stop()["state"] == "succeeded"


@pytest.mark.parametrize(
    ("leader_ends", "own_session"), [(True, True), (False, False)], ids=["leader-ended", "stopped"]
)
def test_grandchildren_end_too(spec, run, tmp_path, own_session, leader_ends):
    code = GRANDCHILD.format(own_session, "" if leader_ends else "time.sleep(60)")
    group = run(spec("chief/0", code))
    log = wait_for_text(tmp_path / "logs" / "chief-0.log", "grandchild")
    state = group.wait(30) if leader_ends else group.stop(5)
    assert state["state"] == ("succeeded" if leader_ends else "cancelled")
    assert_ended(int(log.split()[1]))


def test_descendants_of_a_replica_end_with_it(spec, run, tmp_path):
    group = run(spec("chief/0", SLEEP), spec("worker/0", GRANDCHILD.format(0, "")))
    log = wait_for_text(tmp_path / "logs" / "worker-0.log", "grandchild")
    assert_ended(int(log.split()[1]))
    assert group.state()["state"] == "running"


LISTEN = """
import socket
server = socket.create_server(("0.0.0.0", {port}))
print("listens", flush=True)
server.accept()[0].recv(1)
"""
CONNECT = """
import socket, time
for _ in range(100):
    try:
        socket.create_connection(("127.0.0.1", {port})).send(b"x")
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
"""


@pytest.mark.parametrize(
    "is_private",
    [
        pytest.param(True, id="private", marks=pytest.mark.linux("network namespaces")),
        pytest.param(False, id="shared"),
    ],
)
def test_a_private_network_is_reached_only_from_its_group(spec, run, tmp_path, is_private):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    run(spec("chief/0", LISTEN.format(port=port)), has_private_network=is_private)
    wait_for_text(tmp_path / "logs" / "chief-0.log", "listens")

    try:
        with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=5)):
            is_reached = True
    except ConnectionRefusedError:
        is_reached = False
    assert is_reached is not is_private


def test_replicas_reach_each_other_in_their_private_network(spec, run):
    replicas = [spec("ps/0", LISTEN.format(port=4444)), spec("worker/0", CONNECT.format(port=4444))]
    group = run(*replicas, has_private_network=True)
    assert group.wait(30)["state"] == "succeeded"


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "supervisor-killed"])
def test_temporary_files_end_with_the_group(spec, run, tmp_path, is_killed):
    leave = "import tempfile, time; print('left', tempfile.mkdtemp(), flush=True); time.sleep(60)"
    group = run(spec("chief/0", leave))
    left = Path(wait_for_text(tmp_path / "logs" / "chief-0.log", "left").split()[1])
    assert left.is_dir()

    if is_killed:
        os.kill(supervisor_of(group), signal.SIGKILL)
        group.wait(20)
    else:
        group.stop()

    assert not left.parent.exists()


def test_a_stop_during_the_start_ends_the_group(spec, run):
    state = run(*[spec(f"worker/{i}", SLEEP) for i in range(8)]).stop(grace_seconds=1)
    assert state["state"] == "cancelled"
    assert {replica["state"] for replica in state["replicas"].values()} == {"ended"}


def test_the_error_names_a_command_that_is_not_found(spec, run):
    group = run(spec("worker/0", SLEEP), spec("chief/0", "", command=["no-such-program"]))
    state = group.wait(30)
    assert state["state"] == "failed"
    assert re.search("chief/0 .*'no-such-program'.* absolute path", state["message"])
    assert state["replicas"]["chief/0"] == {
        "pid": None,
        "state": "failed",
        "exit_code": None,
        "started": "",
        "ended": "",
        "restarts": 0,
    }
    assert_ended(*pids(group))


def test_the_error_names_a_missing_working_directory(spec, run):
    message = run(spec("chief/0", "", cwd="/no/such/folder")).wait(30)["message"]
    assert re.search("chief/0 .*working directory '/no/such/folder'", message)


def test_the_error_names_a_log_that_cannot_be_written(spec, run, tmp_path):
    (tmp_path / "file").write_text("")
    log_path = tmp_path / "file" / "chief.log"
    state = run(spec("chief/0", "", log_path=log_path)).wait(30)
    assert state["state"] == "failed"
    assert re.search(f"chief/0 .*log {log_path}", state["message"])


def test_a_log_pipe_whose_reader_was_killed_does_not_hold_up_the_start(spec, run, tmp_path):
    pipe = tmp_path / "output"
    os.mkfifo(pipe)
    state = run(spec("chief/0", SLEEP, log_path=pipe)).wait(20)
    assert state["state"] == "failed"
    assert "cannot be written: No such device or address" in state["message"]


def test_a_log_pipe_whose_reader_was_killed_does_not_hold_up_the_end(spec, run, tmp_path):
    pipe, gone = tmp_path / "output", tmp_path / "gone"
    os.mkfifo(pipe)
    code = "import pathlib, time\nwhile not pathlib.Path('gone').exists(): time.sleep(0.01)\n1 / 0"
    with pipe.open("r+b", buffering=0):
        group = run(spec("chief/0", code, log_path=pipe))
        wait_until(lambda: pids(group), "the start of the process")
    gone.touch()
    assert group.wait(20)["message"].startswith("chief/0 exited with code")


def test_a_process_without_a_command_is_refused(spec, run):
    with pytest.raises(ValueError, match="a has no command"):
        run(spec("a", "", command=[]))


def test_python_is_the_services_own_and_the_environment_is_added(spec, run, tmp_path):
    code = "import os, sys; print(sys.executable, os.environ['COLOUR'], os.environ['HOME'])"
    run(spec("chief/0", code, env={"COLOUR": "red"})).wait(30)
    expected = f"{sys.executable} red {os.environ['HOME']}\n"
    assert (tmp_path / "logs" / "chief-0.log").read_text() == expected


def test_the_state_is_complete_whenever_it_is_read(spec, run, tmp_path):
    group = run(*[spec(f"worker/{i}", "") for i in range(6)])
    while group.wait(0)["state"] == "running":
        state = json.loads((group.folder / "state.json").read_text())
        assert len(state["replicas"]) == 6
    assert group.state()["state"] == "succeeded"


def test_no_zombie_is_left_in_the_service(spec, run):
    before = zombies()  # of services that other tests have killed
    run(spec("chief/0", ""), launch=COLD).wait(30)
    assert zombies() <= before


def zombies():
    found = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # a thread of another test may reap it
            if child.status() == psutil.STATUS_ZOMBIE:
                found.add(child)
    return found


SERVICE = """
import sys, time
from pathlib import Path
from vertex_local.processes import group as processes
folder = Path(sys.argv[1])
specs = [
    processes.ProcessSpec(f"worker/{i}", ["python", "-c", code], {}, None, folder / f"{i}.log")
    for i, code in enumerate(sys.argv[2:])
]
group = processes.start(folder, specs, timeout_seconds=None)
time.sleep(60)
"""


def test_a_killed_service_leaves_nothing(tmp_path):
    """Neither a process that ignores SIGTERM nor one in a session of its own."""
    folder = tmp_path / "group"
    codes = [IGNORE_SIGTERM, GRANDCHILD.format(True, "time.sleep(60)")]
    service = subprocess.Popen([sys.executable, "-c", SERVICE, str(folder), *codes])
    wait_until((folder / "1.log").exists, "logs")
    wait_for_text(folder / "0.log", "ready")
    grandchild = int(wait_for_text(folder / "1.log", "\n").split()[1])
    replicas = [r["pid"] for r in processes.read_state(folder)["replicas"].values()]
    service.kill()
    service.wait(10)
    assert processes.await_end(folder, timeout_seconds=60)
    assert_ended(*replicas, grandchild)
    state = processes.read_state(folder)
    assert state["state"] == "failed"
    assert state["message"] == "interrupted: the service stopped"


def test_a_supervisor_whose_service_has_ended_starts_nothing(tmp_path, spec, run):
    touched = tmp_path / "touched"
    code = f"open({str(touched)!r}, 'w')"
    group = run(spec("a", SLEEP))
    group.stop(0)
    folder = group.folder
    plan = json.loads((folder / "group.json").read_text())
    plan["replicas"][0]["command"][2] = code
    (folder / "group.json").write_text(json.dumps(plan))
    command = [sys.executable, "-m", "vertex_local.processes.supervisor", str(folder)]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=30)
    assert not touched.exists()


@pytest.mark.linux("control of processes without psutil")
def test_the_supervisor_imports_only_the_standard_library():
    module = "vertex_local.processes.supervisor"
    code = f"import sys, {module}; print([m for m in sys.modules if '.' not in m])"
    command = [sys.executable, "-S", "-c", code]
    root = Path(processes.__file__).parents[2]
    out = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=30)
    modules = set(json.loads(out.stdout.replace("'", '"')))
    assert modules - sys.stdlib_module_names == {"__main__", "vertex_local"}
