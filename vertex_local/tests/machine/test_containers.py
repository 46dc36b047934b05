"""Groups in containers: how they end, whom they reach, and that nothing of them is left."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vertex_local.machine.docker import BRIDGE, PRIVATE, Container
from vertex_local.processes import group as processes
from vertex_local.processes.group import Group, ProcessSpec
from vertex_local.tests.support.docker_command import docker
from vertex_local.tests.support.seen import supervisor_of
from vertex_local.tests.support.waiting import wait_for_text

pytestmark = pytest.mark.timeout(120)

SLEEP = "import time; print('ready'); time.sleep(60)"
IGNORE_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
SAY_GOODBYE = """
import signal, sys, time
def end(*_):
    print("goodbye")
    sys.exit(5)
signal.signal(signal.SIGTERM, end)
print("ready")
time.sleep(60)
"""
LISTEN = (
    "import http.server as h; h.HTTPServer(('', 2222), h.SimpleHTTPRequestHandler).handle_request()"
)
ASK = """
import time, urllib.request
for _ in range(100):
    try:
        print(urllib.request.urlopen("http://workerpool1-0:2222/", timeout=5).status)
        break
    except OSError:
        time.sleep(0.1)
time.sleep(3)
"""
REPORT = """
import json, os, tempfile
tempfile.NamedTemporaryFile()
print(json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "ids": [os.getuid(), os.getgid()]}))
"""


@pytest.fixture
def spec(tmp_path: Path, container_image: str) -> Callable[..., ProcessSpec]:
    def make(name: str, code: str, *, network: str = BRIDGE, **options: Any) -> ProcessSpec:
        host = options.pop("host_name", "")
        container = Container(
            image=container_image,
            root=str(tmp_path),
            mounts=(str(tmp_path),),
            network=network,
            host_name=host,
        )
        defaults = {"command": ["python", "-c", code], "env": {}, "cwd": None}
        log_path = tmp_path / f"{name.replace('/', '-')}.log"
        options = defaults | options
        return ProcessSpec(name=name, log_path=log_path, container=container, **options)

    return make


@pytest.fixture
def run(tmp_path: Path, left_over):
    groups: list[Group] = []

    def start(*specs: ProcessSpec, **options: Any) -> Group:
        folder = tmp_path / f"group{len(groups)}"
        options = {"timeout_seconds": 60, **options}
        groups.append(processes.start(folder, list(specs), **options))
        return groups[-1]

    yield start
    for group in groups:
        group.stop(grace_seconds=0)
    assert left_over(tmp_path) == []


def test_a_container_has_the_environment_of_its_spec_and_none_of_the_service(
    spec, run, tmp_path, monkeypatch
):
    monkeypatch.setenv("SECRET_OF_THE_SERVICE", "1")
    env = {"TOKEN": "a b\n$(c)"}
    state = run(spec("chief/0", REPORT, env=env, cwd=str(tmp_path))).wait(60)
    assert state["state"] == "succeeded", state
    report = json.loads((tmp_path / "chief-0.log").read_text())

    assert report["env"]["TOKEN"] == env["TOKEN"]
    assert report["env"]["HOME"] == report["env"]["TMPDIR"] == "/tmp"
    assert "SECRET_OF_THE_SERVICE" not in report["env"]
    assert report["ids"] == [os.getuid(), os.getgid()]
    assert report["cwd"] == str(tmp_path)
    assert "cpu_seconds" not in state["replicas"]["chief/0"], "that of `docker run` says nothing"


def test_the_error_has_the_exit_code_and_the_last_lines(spec, run):
    code = "import sys; print('out'); sys.stderr.write('no such column: fare\\n'); sys.exit(7)"
    state = run(spec("chief/0", code), max_restarts=3).wait(60)

    assert state["state"] == "failed"
    assert "chief/0 exited with code 7. Last lines:" in state["message"]
    assert "no such column: fare" in state["message"]
    assert state["replicas"]["chief/0"]["restarts"] == 0


def test_the_error_names_a_program_missing_in_the_image(spec, run):
    state = run(spec("chief/0", "", command=["no-such-program"])).wait(60)

    assert state["state"] == "failed"
    assert "chief/0 exited with code 127" in state["message"]
    assert "no-such-program" in state["message"]


@pytest.mark.parametrize("killed", ["container", "docker run"])
def test_a_killed_container_is_restarted(spec, run, tmp_path, left_over, killed):
    code = f"""
import os
if os.path.exists("{tmp_path}/again"):
    print("again")
else:
    open("{tmp_path}/again", "w").close()
    {SLEEP}
"""
    group = run(spec("worker/0", code), max_restarts=1)
    wait_for_text(tmp_path / "worker-0.log", "ready")
    replica = group.state()["replicas"]["worker/0"]
    assert left_over(tmp_path) == [replica["container"]]
    if killed == "container":
        docker("kill", replica["container"])
    else:
        os.kill(replica["pid"], signal.SIGKILL)
    state = group.wait(60)

    assert state["state"] == "succeeded", state
    assert state["replicas"]["worker/0"]["restarts"] == 1
    assert (tmp_path / "worker-0.log").read_text() == "ready\nagain\n"


def test_the_error_names_the_signal_that_killed_a_container(spec, run, tmp_path):
    group = run(spec("worker/0", SLEEP))
    wait_for_text(tmp_path / "worker-0.log", "ready")
    docker("kill", group.state()["replicas"]["worker/0"]["container"])
    state = group.wait(60)

    assert state["message"].startswith("worker/0 exited with code 137 (killed by SIGKILL)")


def test_a_stop_lets_the_program_exit_by_itself(spec, run, tmp_path):
    group = run(spec("chief/0", SAY_GOODBYE))
    wait_for_text(tmp_path / "chief-0.log", "ready")
    state = group.stop(grace_seconds=30)

    assert state["state"] == "cancelled"
    assert state["replicas"]["chief/0"]["exit_code"] == 5
    assert (tmp_path / "chief-0.log").read_text() == "ready\ngoodbye\n"


def test_a_shell_forwards_the_stop(spec, run, tmp_path):
    command = ["sh", "-c", f"python -c '{SAY_GOODBYE}' & wait; wait"]
    group = run(spec("chief/0", "", command=command))
    wait_for_text(tmp_path / "chief-0.log", "ready")
    assert group.stop(grace_seconds=30)["state"] == "cancelled"


def test_a_container_that_ignores_the_stop_is_killed(spec, run, tmp_path, left_over):
    group = run(spec("chief/0", IGNORE_SIGTERM))
    wait_for_text(tmp_path / "chief-0.log", "ready")
    state = group.stop(grace_seconds=0.5)

    assert state["state"] == "cancelled"
    assert state["replicas"]["chief/0"]["exit_code"] == 137
    assert left_over(tmp_path) == []


def test_the_timeout_ends_a_container(spec, run, left_over, tmp_path):
    state = run(spec("chief/0", SLEEP), timeout_seconds=2).wait(60)

    assert state["state"] == "timed_out"
    assert left_over(tmp_path) == []


def test_replicas_reach_each_other_by_name_and_no_other_network(spec, run, tmp_path, left_over):
    group = run(
        spec("chief/0", ASK, is_primary=True, network=PRIVATE, host_name="workerpool0-0"),
        spec("worker/0", LISTEN, network=PRIVATE, host_name="workerpool1-0"),
        has_private_network=True,
    )
    wait_for_text(tmp_path / "chief-0.log", "200\n")
    *names, network = left_over(tmp_path)
    isolated = docker("network", "inspect", "--format", "{{.Internal}}", network.split()[1])
    state = group.wait(60)

    assert isolated == "true\n"
    assert len(names) == 2
    assert state["state"] == "succeeded", state
    assert left_over(tmp_path) == []


def test_a_group_without_its_network_fails(spec, run, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    options = {"network": PRIVATE, "host_name": "workerpool0-0"}
    state = run(spec("chief/0", SLEEP, **options), has_private_network=True).wait(60)
    monkeypatch.undo()

    assert state["state"] == "failed"
    assert "private network" in state["message"]
    assert "Cannot connect to the Docker daemon" in state["message"]


def test_a_killed_supervisor_leaves_no_container_and_no_network(spec, run, tmp_path, left_over):
    options = {"network": PRIVATE, "host_name": "workerpool0-0"}
    group = run(spec("chief/0", IGNORE_SIGTERM, **options), has_private_network=True)
    wait_for_text(tmp_path / "chief-0.log", "ready")
    assert len(left_over(tmp_path)) == 2
    os.kill(supervisor_of(group), signal.SIGKILL)

    assert group.wait(60)["state"] == "failed"
    assert left_over(tmp_path) == []
