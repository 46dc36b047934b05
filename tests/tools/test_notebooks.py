"""The programs that stand for `gcloud` and its like in the check with Google's notebooks."""

import os
import subprocess
import sys

import pytest

from tools.notebooks.__main__ import TOOLS, write_programs


@pytest.fixture
def shell(tmp_path):
    """Return a function that runs a shell command with the programs; it returns what it wrote."""
    write_programs(tmp_path / "bin", TOOLS)
    (tmp_path / "buckets").mkdir()
    env = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "VERTEX_LOCAL_BUCKETS": str(tmp_path / "buckets"),
        "NOTEBOOK_SKIPPED": str(tmp_path / "skipped.txt"),
    }

    def run(command):
        words = ["sh", "-c", command]
        return subprocess.run(
            words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=True
        ).stdout

    return run


def test_objects_are_copied_listed_and_shown(shell, tmp_path):
    shell("gcloud storage buckets create --location=us gs://mine && mkdir data && echo 1 > data/a")
    shell("gsutil mb -l us-central1 gs://second; cp data/a data/b")
    shell("gcloud storage cp --recursive data gs://mine/copy; gsutil cp 'data/*' gs://second/all")
    assert shell("gsutil cat gs://mine/copy/a") == "1\n"
    assert sorted(shell("gcloud storage ls gs://second/all").split()) == [
        "gs://second/all/a",
        "gs://second/all/b",
    ]
    assert (tmp_path / "buckets" / "second").is_dir()


def test_other_commands_do_nothing_and_are_listed(shell, tmp_path):
    shell("gcloud services enable aiplatform.googleapis.com")
    assert (tmp_path / "skipped.txt").read_text().startswith("gcloud services enable")
    assert sys.executable in (tmp_path / "bin" / "gcloud").read_text()
