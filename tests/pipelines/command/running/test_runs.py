"""`trainyard submit|runs` against the real service, with a pipeline of one small step."""

import itertools
import json
import os
import pty
import select
import signal
import subprocess
import sys
from typing import NamedTuple

import pytest
from kfp import compiler, dsl

from vertex_local.tests.support.signals import WITH_DEFAULT_SIGINT
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)
WAIT_SECONDS = 60
NUMBERS = itertools.count(1)


@dsl.component(base_image="r.example/python:3.11")
def nap(seconds: float, text: str):
    import time

    print(f"I say {text}", flush=True)  # noqa: T201
    time.sleep(seconds)


@dsl.pipeline(name="napping")
def napping(seconds: float = 0.0, text: str = "hello"):
    nap(seconds=seconds, text=text)


@dsl.component(base_image="r.example/python:3.11")
def evaluate(
    verdict: str,
) -> NamedTuple("Outputs", [("verdict", str), ("reasons", str)]):
    return verdict, "accuracy 0.1 is below 0.9"


@dsl.pipeline(name="judging")
def judging(verdict: str):
    evaluate(verdict=verdict)


@dsl.container_component
def shell():
    return dsl.ContainerSpec(image="alpine", command=["echo"])


@dsl.pipeline(name="in-containers")
def in_containers():
    shell()
    shell().set_display_name("again")


@pytest.fixture
def service(forking_service):
    return forking_service


@pytest.fixture
def run() -> str:
    """A name that no other run has."""
    return f"nap-{next(NUMBERS)}"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "napping.yaml"
    compiler.Compiler().compile(napping, str(path))
    return str(path)


def waiting(package, run, **arguments):
    """Start `submit --wait` with a step that sleeps for ten minutes, as a process."""
    trainyard = [*WITH_DEFAULT_SIGINT, sys.executable, "-m", "pipelines.cli"]
    return subprocess.Popen(
        [*trainyard, "submit", package, "--wait", "--name", run, "--set", "seconds=600"],
        text=True,
        **arguments,
    )


def state(trainyard, run):
    lines = trainyard("runs", "list")[1].splitlines()
    return next((line.split()[1] for line in lines if line.startswith(f"{run} ")), "")


def test_run_is_submitted_awaited_shown_logged_and_deleted(trainyard, package, run):
    code, output, errors = trainyard(
        *("submit", package, "--wait", "--name", run),
        *("--set", "text=123", "--set", "labels.team=vision"),
    )
    assert (code, errors) == (0, "")
    assert output.splitlines()[0] == run
    assert "page: http://127.0.0.1" in output
    assert f"run {run} is SUCCEEDED" in output

    assert state(trainyard, run) == "succeeded"
    assert trainyard("submit", package, "--name", "latest")[0] == 2
    shown = trainyard("runs", "show", run)[1]
    assert trainyard("runs", "show", "latest")[1] == shown
    assert "team=vision" in shown
    assert f"trainyard_run={run}" in shown
    assert "trainyard_by=" in shown
    log = trainyard("runs", "logs", run, "--task", "nap", "--follow")[1]
    assert "nap  I say 123" in log.splitlines()
    code, _, errors = trainyard("runs", "logs", run, "--task", "naps")
    assert code == 2
    assert "did you mean 'nap'?" in errors
    assert "ended already: SUCCEEDED" in trainyard("runs", "cancel", run)[1]
    code, _, errors = trainyard("submit", package, "--name", run)
    assert code == 1
    assert "ALREADY_EXISTS" in errors
    assert trainyard("runs", "delete", run) == (0, f"deleted run {run}\n", "")
    code, _, errors = trainyard("runs", "show", run)
    assert code == 1
    assert "NOT_FOUND" in errors


def test_stdout_has_only_the_result_as_json_or_in_a_line(trainyard, package, run):
    summary = json.loads(trainyard("submit", package, "--wait", "--json")[1])
    assert summary["outcome"] == "succeeded"
    code, output, errors = trainyard("submit", package, "--name", run, "--wait", "--quiet")
    assert (code, output, errors) == (0, f"{run}: succeeded\n", "")
    started = json.loads(trainyard("submit", package, "--name", f"{run}-b", "--json")[1])
    assert started["run"] == f"{run}-b"
    assert started["page"].startswith("http://")
    for command in ("models list", "jobs list", "teardown", "prune --max-gb 9 --dry-run"):
        assert isinstance(json.loads(trainyard(*command.split(), "--json")[1]), list)
    assert json.loads(trainyard("settings", "mnist", "--json")[1])["cluster.workers"] == 2


def test_failed_gate_has_its_own_exit_code(trainyard, tmp_path):
    path = tmp_path / "judging.yaml"
    compiler.Compiler().compile(judging, str(path))
    for number, (verdict, code) in enumerate([("passed", 0), ("failed", 3)]):
        given = ["--name", f"judging-{number}", "--set", f"verdict={verdict}"]

        found, output, _ = trainyard("submit", str(path), "--wait", *given)

        assert found == code, output
        assert ("gate-failed: accuracy 0.1 is below 0.9" in output) is bool(code)


def test_interrupted_wait_without_a_terminal_leaves_the_run(trainyard, package, run):
    process = waiting(package, run, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until(lambda: state(trainyard, run) == "running", "running")
    code, _, errors = trainyard("runs", "delete", run)
    assert code == 2
    assert f"trainyard runs cancel {run}" in errors

    process.send_signal(signal.SIGINT)

    assert f"trainyard runs cancel {run}" in process.communicate(timeout=WAIT_SECONDS)[1]
    assert process.returncode == 130
    assert state(trainyard, run) == "running"
    assert f"run {run}" in trainyard("runs", "cancel", run)[1]
    wait_until(lambda: state(trainyard, run) == "cancelled", "cancelled")


def test_at_a_terminal_ctrl_c_asks_whether_to_cancel(trainyard, package, run):
    ours, theirs = pty.openpty()
    process = waiting(
        package, run, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    shown = ""

    def says(text: str) -> bool:
        nonlocal shown
        if select.select([ours], [], [], 0)[0]:
            try:
                shown += os.read(ours, 65536).decode(errors="replace")
            except OSError:  # nobody has the other end open
                assert text in shown, shown
        return text in shown

    try:
        wait_until(lambda: state(trainyard, run) == "running" and says("nap"), "the step shown")
        process.send_signal(signal.SIGINT)
        wait_until(lambda: says(f"Cancel run {run}? [y/N]"), "the question")
        os.write(ours, b"y\n")
        wait_until(lambda: says(f"run {run} is CANCELLED"), "the end")
        assert process.wait(WAIT_SECONDS) == 1
    finally:
        process.kill()
        process.wait(WAIT_SECONDS)
        os.close(ours)


def test_mistake_is_reported_and_no_run_is_created(trainyard, package, tmp_path):
    def names() -> list[str]:
        return [one["run"] for one in json.loads(trainyard("runs", "list", "--json")[1])]

    before = names()
    for wrong, message in (
        (["--set", "seconds=long"], "seconds is 'long'; it must be a number"),
        (["--set", "second=1"], "did you mean 'seconds'?"),
        (["--name", "Nap"], "the name 'Nap' is not allowed"),
    ):
        code, _, errors = trainyard("submit", package, *wrong)
        assert code == 2
        assert message in errors
    path = tmp_path / "containers.yaml"
    compiler.Compiler().compile(in_containers, str(path))

    code, _, errors = trainyard("submit", str(path))

    assert code == 1
    for task in ("shell", "shell-2"):
        assert f"\n  {task}: " in errors
    assert "Traceback" not in errors
    assert names() == before


@pytest.mark.parametrize("command", [["--help"], ["runs", "list"]], ids=" ".join)
def test_closed_pipe_gives_no_traceback(trainyard, monkeypatch, command):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    reader, writer = os.pipe()
    os.close(reader)
    call = [sys.executable, "-m", "pipelines.cli", *command]
    try:
        done = subprocess.run(
            call, stdout=writer, stderr=subprocess.PIPE, timeout=WAIT_SECONDS, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
