"""Completion of commands, settings and names, in Python and in bash."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.command import completion
from vertex_local.api.database.store import Store

pytestmark = pytest.mark.fast

PARENT = "projects/local/locations/us-central1"
RUN = {"displayName": "mnist-1", "state": "PIPELINE_STATE_SUCCEEDED"}
RECORDS = {
    "pipelineJobs/mnist-1": RUN,
    "customJobs/1002": {"displayName": "train-mnist", "state": "JOB_STATE_RUNNING"},
    "models/1003": {"displayName": "digits", "aliases": {"default": "2"}},
    "models/1003/versions/2": {"versionId": "2"},
    "schedules/7": {"displayName": "nightly"},
}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Return a folder with a workload, a table, and the state of a service that was killed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("churn/workload.py", "customers.csv", "live/x"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    store = Store(Path("live/vertex.db"))
    for name, body in RECORDS.items():
        record = {**body, "name": f"{PARENT}/{name}", "createTime": "2026-11-29T10:00:00Z"}
        spec = {"root": {"dag": {"tasks": {"e": {"taskInfo": {"name": "evaluate"}}}}}}
        more = {"pipelineSpec": spec} if name.startswith("pipelineJobs") else {}
        store.insert(record["name"], record | more)
    shutil.copytree("live", ".trainyard/vertex")
    store.close()
    return tmp_path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("runs sh", "show"),
        ("runs show ", "latest mnist-1"),
        ("runs logs mnist-1 --task ", "evaluate"),
        ("jobs logs 1", "1002"),
        ("jobs cancel ", "latest train-mnist 1002"),
        ("models delete digits@", "digits@default digits@2"),
        ("schedule pause ", "nightly"),
        ("run chu", "churn/"),
        ("run mnist --set train.ep", "train.epochs="),
        ("runs show --on vertex ", ""),
        ("new x --table custo", ""),
        ("check 'chu", ""),
    ],
)
def test_the_words_that_may_follow(folder, line, words):
    index = Path(".trainyard/vertex/vertex.db-shm")
    before = index.read_bytes()
    assert " ".join(completion.completions(f"trainyard {line}")) == words
    assert index.read_bytes() == before, "of a killed service it shows a damaged journal"


def test_bash_completes_files_and_replaces_only_the_end_of_a_word(folder):
    """And it imports nothing but the standard library: a shell waits."""
    program = folder / "trainyard"
    code = (
        "import sys; from trainyard.__main__ import main; main(); assert 'yaml' not in sys.modules"
    )
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    program.chmod(0o755)
    (folder / "script").write_text(completion.SCRIPTS["bash"])
    completion.completions("trainyard ")
    lines = {
        "models show digits@": "@",
        "run mnist --set train.ep": "train.ep",
        "new x --table c": "c",
    }
    calls = "".join(
        f'COMP_POINT=99 COMP_LINE="trainyard {line}"; _trainyard {program} {end}\n'
        "echo ${COMPREPLY[@]}\n"
        for line, end in lines.items()
    )
    script = f". ./script; complete -p trainyard\n{calls}"
    said = subprocess.check_output(["bash", "-c", script], text=True).splitlines()
    assert "-o default" in said[0], "files, where there is no reply"
    assert said[1:] == ["@default @2", "train.epochs=", ""]
