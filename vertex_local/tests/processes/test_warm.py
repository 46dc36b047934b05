"""The same programs as new processes and as forks of a warm one, with no visible difference."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from kfp import dsl

from vertex_local.cli import main
from vertex_local.pipelines import step_process
from vertex_local.processes import group as processes
from vertex_local.processes.group import Group, ProcessSpec
from vertex_local.processes.launch import Launch
from vertex_local.processes.warm import Warm
from vertex_local.tests.support.seen import is_running, supervisor_of
from vertex_local.tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(90), pytest.mark.linux("safe forks")]

MODULES = ["numpy.random", "multiprocessing.process", "tempfile"]
# Modules of the warm process show that a program runs as a fork of it.
PROOF = "import sys; open('proof', 'w').write(str('numpy' in sys.modules))\n"
REPORT = """
import json, os, resource, signal, sys, tempfile, threading
import ctypes
main = sys.modules["__main__"]
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
death_signal = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(death_signal))
print(json.dumps({
    "env": dict(os.environ),
    "environ in C": str(getenv(b"MINE")),
    "cwd": os.getcwd(),
    "path": sys.path,
    "argv": [sys.argv, sys.orig_argv, sys.executable, list(sys.flags)],
    "main": [__name__, __file__, __spec__.name, main.__dict__ is globals(), sorted(globals())],
    "files": {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)},
    "open": [fd for fd in range(100) if os.path.exists(f"/proc/self/fd/{fd}")],
    "stdin": sys.stdin.read(),
    "streams": [(s.encoding, s.errors, s.line_buffering, s.write_through) for s in
                (sys.stdin, sys.stdout, sys.stderr)],
    "session": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
    "signals": {n: str(signal.getsignal(n)) for n in signal.valid_signals()},
    "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "wakeup": signal.set_wakeup_fd(-1),
    "dies with its parent": death_signal.value,
    "limits": [resource.getrlimit(n) for n in range(10)],
    "umask": os.umask(0o22),
    "nice": os.nice(0),
    "cores": sorted(os.sched_getaffinity(0)),
    "network": os.readlink("/proc/self/ns/net"),
    "threads": [len(os.listdir("/proc/self/task")), threading.main_thread().name],
    "temp": tempfile.gettempdir(),
    "hook": str(sys.excepthook),
}, default=str))
"""
ENDINGS = {
    "falls off its end": "print('done')",
    "sys.exit": "import sys; sys.exit(3)",
    "sys.exit with words": "import sys; sys.exit('no such column: fare')",
    "os._exit": "import os; print('lost'); os._exit(7)",
    "error": "def f(): raise KeyError('fare')\nf()",
    "error with a cause": "try:\n    1 / 0\nexcept ArithmeticError:\n    raise ValueError(1)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "SIGKILL": "import os; os.kill(os.getpid(), 9)",
    "SIGSEGV": "import os; os.kill(os.getpid(), 11)",
    "both streams": "import sys\nfor i in range(50): print(i); sys.stderr.write(f'err {i}\\n')",
    "atexit": "import atexit\natexit.register(print, 1)\natexit.register(print, 2)\nexit(1)",
    "a file left open": "f = open('left', 'w'); f.write('x' * 100)\nimport atexit; "
    "atexit.register(lambda: print(f.closed))",
    "a file left open by a cycle": "class Log: pass\nlog = Log(); log.log = log\n"
    "log.file = open('left', 'w'); log.file.write('y' * 100)",
    "a global with a finalizer": "class Last:\n    def __del__(self): print('last')\nlast = Last()",
    "a daemon thread": "import threading\nprint('early'); f = open('left', 'w'); f.write('z' * 9)\n"
    "threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "stdout closed": "import sys; print('early'); sys.stdout.close()",
    "a thread": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()\nprint('early')",
    "syntax error": "print('never'\n",
    "missing module": "",
}
WAIT_FOR_SIGTERM = """
import signal, sys, time
def end(*_):
    print("checkpoint written")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready")
time.sleep(60)
"""


@dataclass(frozen=True)
class Outcome:
    """Final state, log and kind of process of a program."""

    state: dict[str, Any]
    log: str
    was_forked: bool
    left: str


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("warm")
    with ready(Warm([MODULES], log_path=folder / "warm.log")) as warm:
        yield warm


@contextmanager
def ready(warm: Warm):
    warm.start()
    warm.await_ready(60)
    assert warm.is_ready
    try:
        yield warm
    finally:
        warm.close()


@pytest.fixture
def start(tmp_path: Path):
    """Return a function that starts `python -m job` with this source in a new folder."""
    groups: list[Group] = []

    def do(source: str, warm: Warm | None, *, folder: str = "", **options: Any) -> Group:
        home = tmp_path / (folder or f"home{len(groups)}")
        home.mkdir(exist_ok=True)
        (home / "job.py").write_text(PROOF + source)
        command = options.pop("command", ["python", "-m", "job", "--flag", "two words"])
        spec = ProcessSpec(
            name="chief/0",
            command=command,
            env={"MINE": "1", "TF_CONFIG": "{}", **options.pop("env", {})},
            cwd=str(home),
            log_path=home / "log",
        )
        launch = Launch(warm=warm)
        group = processes.start(
            home / "group", [spec], timeout_seconds=60, launch=launch, **options
        )
        groups.append(group)
        return group

    yield do
    for group in groups:
        group.stop(grace_seconds=0)


@pytest.fixture
def outcome():
    """Return a function that waits for the end of a program."""

    def do(group: Group) -> Outcome:
        state = group.wait(60)
        home = group.folder.parent
        proof = home / "proof"
        text = (home / "log").read_text()
        forked = proof.exists() and proof.read_text() == "True"
        # Replace the names of the folders, which differ.
        text = text.replace(str(home), "HOME").replace(os.path.realpath(group.folder), "GROUP")
        state["message"] = state["message"].replace(str(home), "HOME")
        left = home / "left"
        return Outcome(state, text, forked, left.read_text() if left.exists() else "")

    return do


@pytest.fixture
def run(start, outcome):
    """Return a function that runs a program to its end."""
    return lambda source, warm, **options: outcome(start(source, warm, **options))


def test_a_fork_has_the_same_state_as_a_new_process(run, warm):
    new, fork = run(REPORT, None), run(REPORT, warm)

    assert (new.was_forked, fork.was_forked) == (False, True)
    expected, found = json.loads(new.log), json.loads(fork.log)
    for report in (expected, found):
        report["env"].pop("TMPDIR")
        report["env"].pop("PYTEST_CURRENT_TEST")  # it changes while pytest runs
        assert report.pop("temp").startswith(f"{tempfile.gettempdir()}/group-")
    assert found == expected


@pytest.fixture
def background_job():
    """Ignore the signals that shells and nohup ignore for a background job."""
    before = {n: signal.getsignal(n) for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)}
    for number in before:
        signal.signal(number, signal.SIG_IGN)
    yield [number.name for number in before]
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_program_started_by_a_background_job_ends_on_a_signal(start, tmp_path, background_job):
    names = list(background_job)
    with ready(Warm([MODULES], log_path=tmp_path / "warm.log")) as warm:
        groups = [
            start(f"import os, signal; os.kill(os.getpid(), signal.{name})", client)
            for name in names
            for client in (None, warm)
        ]
        messages = [group.wait(60)["message"] for group in groups]
    proofs = [(group.folder.parent / "proof").read_text() for group in groups]
    assert proofs == ["False", "True"] * len(names)
    for message, name in zip(messages, [one for one in names for _ in range(2)], strict=True):
        assert f"killed by {name}" in message


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_fork_ends_as_a_new_process_does(start, outcome, warm, ending):
    """Both at the same time; of a variable that modules read at import no fork is made."""
    words = {"command": ["python", "-m", "nosuchmodule"]} if ending == "missing module" else {}
    groups = [
        start(ENDINGS[ending], warm, env=env, **words) for env in ({"OMP_NUM_THREADS": "1"}, {})
    ]
    new, fork = map(outcome, groups)

    assert fork.log == new.log
    assert fork.left == new.left
    assert fork.state["message"] == new.state["message"]
    replicas = [outcome.state["replicas"]["chief/0"] for outcome in (new, fork)]
    assert replicas[0]["exit_code"] == replicas[1]["exit_code"]
    assert replicas[0]["state"] == replicas[1]["state"]
    assert not new.was_forked
    assert fork.was_forked or ending in ("syntax error", "missing module")
    assert ending != "missing module" or "No module named nosuchmodule" in fork.log


def test_a_fork_that_a_signal_reaches_while_it_exits_only_exits(run, warm):
    thread = "time.sleep(0.2), os.kill(os.getpid(), signal.SIGINT)"
    ended = run(
        f"import os, signal, threading, time\nthreading.Thread(target=lambda: ({thread})).start()\n"
        "print('done')",
        warm,
    )

    assert (ended.was_forked, ended.log) == (True, "done\n")
    assert ended.state["replicas"]["chief/0"]["exit_code"] == 0


def test_forks_share_no_randomness(run, warm):
    source = (
        "import random, numpy, multiprocessing as m\n"
        "print(random.random(), numpy.random.rand(), m.current_process().authkey.hex())"
    )
    numbers = [number for _ in range(2) for number in run(source, warm).log.split()]
    assert len(set(numbers)) == 6


def test_sigterm_reaches_the_handler_of_a_fork(start, warm):
    group = start(WAIT_FOR_SIGTERM, warm)
    log = group.folder.parent / "log"
    wait_until(lambda: log.exists() and "ready" in log.read_text())

    state = group.stop(grace_seconds=20)

    assert "checkpoint written" in log.read_text()
    assert state["replicas"]["chief/0"]["exit_code"] == 0


@pytest.mark.parametrize("killed", ["supervisor", "warm process"])
def test_the_descendants_of_a_killed_process_end(start, tmp_path, killed):
    with ready(Warm([["tempfile"]], log_path=tmp_path / "warm.log")) as warm:
        group = start("import time; time.sleep(60)", warm)
        [pid] = replica_pids(group)
        replica = psutil.Process(pid)
        warm_pid = psutil.Process(supervisor_of(group)).ppid()

        os.kill(supervisor_of(group) if killed == "supervisor" else warm_pid, signal.SIGKILL)

        if killed == "supervisor":
            assert "its supervisor ended with code -9" in group.wait(30)["message"]
            wait_until(lambda: not replica.is_running())
        else:
            await_restart(warm, warm_pid)
            assert is_running(pid)
            assert group.stop()["state"] == "cancelled"


def await_restart(warm: Warm, pid: int) -> None:
    """Wait until warm processes that follow the one with this PID are ready.

    `is_ready` alone may still be that of the processes before.
    """
    wait_until(lambda: warm.process.pid != pid, "a new warm process")
    warm.await_ready(30)
    assert warm.is_ready


def replica_pids(group: Group) -> list[int]:
    def found() -> list[int]:
        return [one["pid"] for one in group.state()["replicas"].values() if one["pid"]]

    return wait_until(found)


def test_a_group_of_forks_has_a_private_network(run, warm):
    source = "import os; print(os.readlink('/proc/self/ns/net'))"
    fork = run(source, warm, has_private_network=True)
    assert fork.was_forked
    assert fork.log.strip() != os.readlink("/proc/self/ns/net")


@pytest.mark.parametrize(
    ("options", "is_forked"),
    [
        pytest.param({"env": {"OMP_NUM_THREADS": "1"}}, False, id="variable-read-at-import"),
        pytest.param({"env": {"PYTHONHASHSEED": "1"}}, False, id="variable-of-the-interpreter"),
        pytest.param({"env": {"TF_CONFIG": '{"task": {}}'}}, True, id="variable-read-later"),
        pytest.param({"command": ["python", "-u", "-m", "job"]}, False, id="interpreter-option"),
        pytest.param({"command": ["python", "job.py"]}, False, id="script"),
        pytest.param({"command": [sys.executable, "-m", "job"]}, True, id="by-full-name"),
    ],
)
def test_programs_that_cannot_be_forks_start_as_new_processes(run, warm, options, is_forked):
    outcome = run("print('done')", warm, **options)
    assert outcome.log == "done\n"
    assert outcome.was_forked is is_forked


def test_modules_in_the_working_directory_come_first(run, warm, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "numpy.py").write_text("name = 'my own'")
    outcome = run("import numpy; print(numpy.name)", warm, folder="home")
    assert outcome.log == "my own\n"


@pytest.fixture
def two_stages(tmp_path, monkeypatch):
    """Warm processes of which the second imports `slow`, for as long as the file `hold` exists."""
    library = tmp_path / "lib"
    library.mkdir()
    (library / "slow.py").write_text(
        "import time\nfrom pathlib import Path\n"
        f"while Path({str(tmp_path / 'hold')!r}).exists(): time.sleep(0.01)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(library))
    warm = Warm([MODULES, ["slow"]], log_path=tmp_path / "warm.log")
    (tmp_path / "hold").touch()
    warm.start()
    warm.await_ready(60, any_stage=True)
    yield warm
    warm.close()


def test_programs_do_not_wait_for_the_second_stage(run, two_stages, tmp_path):
    source = "import sys; print('slow' in sys.modules)"
    assert not two_stages.is_ready
    first = run(source, two_stages)
    (tmp_path / "hold").unlink()
    two_stages.await_ready(30)
    second = run(source, two_stages)
    assert (first.log, second.log) == ("False\n", "True\n")
    assert first.was_forked
    assert second.was_forked


@pytest.mark.parametrize("stage", [0, 1])
def test_all_stages_restart_when_one_is_killed(run, two_stages, tmp_path, stage):
    (tmp_path / "hold").unlink()
    two_stages.await_ready(30)
    first = psutil.Process(two_stages.process.pid)
    killed = [first, *first.children()]
    assert len(killed) == 2
    killed[stage].kill()
    wait_until(lambda: not any(is_running(process.pid) for process in killed))
    await_restart(two_stages, first.pid)
    assert run("import sys; print('slow' in sys.modules)", two_stages).log == "True\n"


def test_no_stage_is_served_if_the_second_cannot_be_imported(run, two_stages, tmp_path):
    (tmp_path / "lib" / "slow.py").write_text("import no_such_package")
    psutil.Process(two_stages.process.pid).kill()
    wait_until(lambda: "cannot be imported" in (tmp_path / "warm.log").read_text())
    two_stages.await_ready(30)
    assert not two_stages.is_begun
    outcome = run("print('done')", two_stages)
    assert outcome.log == "done\n"
    assert not outcome.was_forked


def test_changed_modules_are_imported_again(run, tmp_path, monkeypatch):
    module = tmp_path / "lib" / "settings_of_mine.py"
    module.parent.mkdir()
    module.write_text("value = 'old'")
    monkeypatch.setenv("PYTHONPATH", str(module.parent))
    source = "import settings_of_mine; print(settings_of_mine.value)"
    with ready(Warm([["settings_of_mine"]], log_path=tmp_path / "warm.log")) as warm:
        assert run(source, warm).log == "old\n"
        first_pid = warm.process.pid
        module.write_text("value = 'new one'")
        assert run(source, warm).log == "new one\n"
        await_restart(warm, first_pid)
        assert "have changed" in (tmp_path / "warm.log").read_text()
        assert run(source, warm).log == "new one\n"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_package", "cannot be imported: ModuleNotFoundError"),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True)"
         ".start()", "starts threads: "),
    ],
    ids=["fails", "starts-a-thread"],
)  # fmt: skip
def test_the_log_names_modules_that_cannot_be_preloaded(run, tmp_path, monkeypatch, source, reason):
    (tmp_path / "preloaded_badly.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    warm = Warm([["preloaded_badly"]], log_path=tmp_path / "warm.log")
    warm.start()
    warm.await_ready(30)

    assert not warm.is_ready
    assert reason in (tmp_path / "warm.log").read_text()
    assert run("print('done')", warm).log == "done\n"
    warm.close()


@pytest.mark.parametrize(
    ("body", "code"),
    [("print(a, 'numpy' in sys.modules)", 0), ("print(a); raise ValueError(a)", 1)],
    ids=["ends-well", "fails"],
)
def test_steps_of_a_pipeline_are_forks(warm, tmp_path, body, code):
    source = f"\nimport kfp\nfrom kfp.dsl import *\n\ndef f(a: str):\n    import sys\n    {body}\n"
    inputs = {
        "inputs": {"parameterValues": {"a": "hello"}},
        "outputs": {"outputFile": str(tmp_path / "out")},
    }
    container = kfp_command()
    command = [*container, source, "--executor_input", json.dumps(inputs)]
    logs = []
    for client in (None, warm):
        log_path = tmp_path / f"{client}.log"
        found = step_process.run(
            [*command, "--function_to_execute", "f"],
            env={},
            log_path=log_path,
            temp_dir=tmp_path / "temp",
            must_stop=lambda: False,
            warm=client,
        )
        assert found == code
        logs.append(log_path.read_text())
    if code == 0:
        assert "hello False\n" in logs[0]
        assert "hello True\n" in logs[1]
        logs[0] = logs[0].replace("hello False", "hello True")
    varying = re.compile(r"\d{4}-\d\d-\d\d \S+|tmp\.\w+")  # the time, the source's folder
    assert varying.sub("", logs[1]) == varying.sub("", logs[0])


def kfp_command() -> list[str]:
    """Return the command with which this kfp starts a Python component, without its source."""

    @dsl.component(base_image="python", install_kfp_package=False)
    def nothing():
        pass

    return nothing.component_spec.implementation.container.command[:3]


def test_the_warm_process_ends_with_the_service(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from vertex_local.processes.warm import Warm\n"
        f"warm = Warm([['tempfile']], log_path=Path({str(tmp_path / 'log')!r})); warm.start()\n"
        "warm.await_ready(30); print(warm.is_ready, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as service:
        assert service.stdout.readline() == b"True\n"
        [warm] = psutil.Process(service.pid).children()
        service.kill()
    wait_until(lambda: not is_running(warm.pid))


def test_a_module_to_preload_that_is_not_installed_is_a_usage_error(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--root", str(tmp_path), "--preload", "json,no_such_package"])
    assert "'no_such_package' is not installed" in capsys.readouterr().err
