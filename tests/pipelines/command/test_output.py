"""Commands whose output is closed, full, in another encoding, or whose folder disappears."""

import argparse
import errno
import signal
import subprocess
import sys
from typing import NamedTuple

import pytest
from kfp import compiler, dsl

from pipelines import cli
from pipelines.exit_codes import GATED, INTERRUPTED
from vertex_local.tests.support.signals import WITH_DEFAULT_SIGINT

WAIT_SECONDS = 60
COMMAND = f"{sys.executable} -m pipelines.cli"


@dsl.component(base_image="r.example/python:3.11")
def evaluate(folder: str) -> NamedTuple("Outputs", [("verdict", str), ("reasons", str)]):
    import shutil

    shutil.rmtree(folder)
    return "failed", "accuracy 0.1 ist für uns zu wenig …"


@dsl.pipeline(name="judging")
def judging(folder: str):
    evaluate(folder=folder)


@pytest.fixture
def service(forking_service):
    return forking_service


@pytest.fixture
def submit(api, tmp_path, monkeypatch):
    """The command that waits for a run that does not pass and removes the folder `gone`."""
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    compiler.Compiler().compile(judging, str(tmp_path / "judging.yaml"))
    (tmp_path / "gone").mkdir()
    given = f"--name {tmp_path.name.replace('_', '-').lower()} --set folder={tmp_path}/gone"
    return f"{COMMAND} submit {tmp_path}/judging.yaml --wait {given}"


def shell(text: str, **arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", text]
    return subprocess.run(
        command, stderr=subprocess.PIPE, text=True, timeout=WAIT_SECONDS, check=False, **arguments
    )


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "form",
    [
        "{} >&- 2>&- <&-",
        "{} > /dev/full",
        "{} | true; exit ${{PIPESTATUS[0]}}",
        "PYTHONIOENCODING=ascii {}",
        "cd gone; {}",
    ],
)
def test_the_exit_code_is_that_of_the_run_whatever_becomes_of_the_output(submit, tmp_path, form):
    done = shell(form.format(submit), cwd=tmp_path, stdout=subprocess.DEVNULL)
    assert done.returncode == GATED, done.stderr
    assert "Traceback" not in done.stderr


def test_a_list_that_cannot_be_written_is_an_error(submit):
    done = shell(f"{COMMAND} runs list > /dev/full")
    assert done.returncode == 1
    reason = "the output cannot be written: No space left on device"
    assert done.stderr == f"trainyard: {reason}\n"


@pytest.mark.fast
def test_an_interrupt_during_the_imports_of_a_command_is_no_traceback(monkeypatch):
    def interrupted(argv: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "parse", interrupted)
    assert cli.main(["run", "mnist"]) == INTERRUPTED


INTERRUPTS_ITS_IMPORT = """
import os, signal, sys

class Finder:
    @staticmethod
    def find_spec(name, *_):
        if name == "pipelines.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder)
from trainyard.__main__ import main
main()
"""


def test_an_interrupt_while_the_program_starts_is_no_traceback():
    command = [*WITH_DEFAULT_SIGINT, sys.executable, "-c", INTERRUPTS_ITS_IMPORT]
    done = subprocess.run(command, capture_output=True, timeout=WAIT_SECONDS, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


VERSION = """
import sys
from pipelines.cli import main
try:
    main(["--version"])
finally:
    assert not {"tensorflow", "kfp", "apache_beam"} & set(sys.modules)
"""


def test_version_option_does_not_import_tensorflow():
    subprocess.run(
        [sys.executable, "-c", VERSION], check=True, stdout=subprocess.DEVNULL, timeout=WAIT_SECONDS
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left", "a", None, "b"), "a → b: No space left"),
        (OSError(errno.ENOSPC, "No space left"), "No space left"),
        (TimeoutError("it took too long"), "it took too long"),
    ],
    ids=["files", "no file", "a message of ours"],
)
def test_an_error_of_the_system_names_its_files(monkeypatch, capsys, error, message):
    def fail(_):
        raise error

    monkeypatch.setattr(cli, "parse", lambda _: argparse.Namespace(command=fail))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert cli.main(["plan"]) == 1
    assert capsys.readouterr().err == f"trainyard: {message}\n"
