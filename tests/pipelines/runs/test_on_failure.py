"""The command that is run when a run has failed."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from components.shared.run_summary.summary import summarize
from pipelines.config.built_in import mnist
from pipelines.config.settings import with_settings
from pipelines.places.target import local_target
from pipelines.runs import on_failure
from tests.support.data.run_records import FAILED, job, promoted
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast


WRITE = (
    "import json,os,sys; "
    "json.dump([json.load(sys.stdin), dict(os.environ)], open(sys.argv[1], 'w'))"
)


@pytest.mark.parametrize("found", [job(FAILED), job(state="CANCELLED")], ids=["gate", "cancelled"])
def test_on_failure_is_run_after_a_bad_end(tmp_path, found):
    target, summary = local_target(tmp_path / "state"), summarize(found)
    summary.write(target.run_dir("m-1"))
    command = shlex.join([sys.executable, "-c", WRITE, str(tmp_path / "told")])
    words = on_failure.check_command(command)

    assert on_failure.run_command(words, summary, target=target) == ""

    content, environment = json.loads((tmp_path / "told").read_text())
    assert content == json.loads(summary.to_json())
    assert environment["TRAINYARD_RUN"] == "m-1"
    assert environment["TRAINYARD_OUTCOME"] == summary.outcome
    assert json.loads(Path(environment["TRAINYARD_SUMMARY"]).read_text()) == content


@pytest.mark.parametrize("found", [promoted(), job(state="RUNNING")], ids=["good", "going-on"])
def test_on_failure_is_not_run_otherwise(tmp_path, found):
    words = [sys.executable, "-c", "raise SystemExit(1)"]
    assert on_failure.run_command(words, summarize(found), target=local_target(tmp_path)) == ""


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("raise SystemExit(7)", "7"),
        ("import time; time.sleep(60)", "0.5 s"),
        ("pass", ""),  # reads nothing
    ],
    ids=["fails", "hangs", "deaf"],
)
def test_failure_of_on_failure_is_reported(tmp_path, code, problem):
    words = [sys.executable, "-c", code]
    seconds = 0.5 if "sleep" in code else 30
    said = on_failure.run_command(
        words, summarize(job(FAILED)), target=local_target(tmp_path), timeout_seconds=seconds
    )
    assert said.endswith(problem) if problem else said == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no-such-program --x", "there is no such program"),
        ("'open", "No closing quotation"),
        ("  ", "there is no such program"),
    ],
)
def test_invalid_on_failure_is_refused_before_the_run(text, message):
    with pytest.raises(ConfigError, match=message):
        on_failure.check_command(text)


@pytest.mark.parametrize(
    ("address", "is_warned_of"),
    [
        ("https://hooks.example/services/SECRET", True),
        ("env:HOOK", False),
        ("projects/p/secrets/hook/versions/latest", False),
    ],
)
def test_an_address_that_is_stored_readably_is_a_warning(address, is_warned_of, caplog):
    values = with_settings(mnist(), [f"on_failure_url={address}"]).parameters()

    on_failure.warn_of_readable_address({"runtimeConfig": {"parameterValues": values}})

    assert ("https://hooks.example/… of on_failure_url is stored" in caplog.text) is is_warned_of
    assert "SECRET" not in caplog.text


def test_on_failure_requires_wait():
    with pytest.raises(ConfigError, match="needs --wait"):
        on_failure.check_command("true", is_waiting=False)
