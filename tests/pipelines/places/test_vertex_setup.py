import os
import re

import pytest

from pipelines.cli import main
from pipelines.places.vertex_setup import Setup, steps_of
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast

ARGUMENTS = ["vertex-setup", "--project", "my-project", "--bucket", "my-bucket"]
FAKE = """#!/bin/sh
printf '%s\\n' "$*" >> "$GCLOUD_LOG"
case "$*" in
  *"buckets describe"*) exit 0 ;;
  *describe*) exit 1 ;;
  *FAILS*) echo "denied" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def gcloud(tmp_path, monkeypatch):
    """A fake gcloud that records its arguments; only the bucket exists."""
    program = tmp_path / "bin" / "gcloud"
    program.parent.mkdir()
    program.write_text(FAKE)
    program.chmod(0o755)
    log = tmp_path / "log"
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("GCLOUD_LOG", str(log))
    return lambda: log.read_text().splitlines() if log.exists() else []


def test_without_yes_commands_are_only_printed(gcloud, capsys):
    assert main(ARGUMENTS) == 0

    output = capsys.readouterr().out
    assert gcloud() == []
    assert "gcloud services enable aiplatform.googleapis.com" in output
    assert "export TRAINYARD_PIPELINE_ROOT=gs://my-bucket/runs" in output
    assert "trainyard@my-project.iam.gserviceaccount.com" in output


def test_yes_creates_only_missing_resources(gcloud, capsys):
    assert main([*ARGUMENTS, "--yes"]) == 0

    ran = gcloud()
    made = [line for line in ran if " create " in f" {line} "]
    assert not any("buckets create" in line for line in ran), "it is there already"
    assert [line.split()[0] for line in made] == ["artifacts", "artifacts", "iam"]
    assert any("--repository-format=kfp" in line for line in made)
    assert re.search("exists already: .*bucket", capsys.readouterr().out)


def test_failed_command_stops_the_setup_and_is_reported(gcloud, capsys):
    assert main([*ARGUMENTS, "--member", "user:FAILS@x.org", "--yes"]) == 1

    assert "user:FAILS@x.org" in (error := capsys.readouterr().err)
    assert "denied" in error


def test_missing_gcloud_is_reported_with_the_remedy(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert main([*ARGUMENTS, "--yes"]) == 1
    assert "gcloud is not installed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("project", "My Project", id="project"),
        pytest.param("bucket", "gs://b", id="bucket"),
        pytest.param("location", "us", id="location"),
        pytest.param("account", "a;rm -rf /", id="account"),
        pytest.param("member", "me", id="member"),
    ],
)
def test_invalid_name_is_refused(name, value):
    with pytest.raises(ConfigError, match=f"--{name} is"):
        Setup(**{"project": "my-project", "bucket": "my-bucket", name: value})


def test_member_may_act_as_the_account():
    setup = Setup(project="my-project", bucket="my-bucket", member="user:me@x.org")

    commands = [step.command for step in steps_of(setup)]

    assert any("--member=user:me@x.org" in command for command in commands)
    assert all(command[0] == "gcloud" for command in commands)
