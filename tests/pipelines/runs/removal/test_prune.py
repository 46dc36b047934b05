"""`trainyard prune` and `runs delete` against the real service: removed and kept runs."""

import fcntl
import json
import os
import time
from functools import partial
from pathlib import Path

import pytest
from kfp import compiler, dsl

from benchmarks.support.finished_runs import fill
from components.shared.vertex.api import EMULATOR_VARIABLE, connect
from components.shared.vertex.errors import VertexError
from pipelines.cli import main
from pipelines.places.target import DEFAULT_LOCATION, LOCAL_PROJECT
from pipelines.runs.removal import files as removal_files
from pipelines.runs.removal.files import RunFiles, read_entry
from pipelines.runs.removal.prune import GIGABYTE, OldRun, decide, prune
from vertex_local.tests.support.service import PRELOAD_KFP, running_service
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)
DAY = 86_400
FITS = "it is neither too old nor too much"


@dsl.component(base_image="r.example/python:3.11")
def make(text: str, made: dsl.Output[dsl.Artifact]):
    with open(made.path, "w") as file:
        file.write(text)


@dsl.component(base_image="r.example/python:3.11")
def use(made: dsl.Input[dsl.Artifact], seconds: float) -> str:
    import time

    time.sleep(seconds)
    with open(made.path) as file:
        return file.read()


@dsl.pipeline(name="making")
def making(text: str = "a", seconds: float = 0.0):
    use(made=make(text=text).outputs["made"], seconds=seconds).set_caching_options(False)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "making.yaml"
    compiler.Compiler().compile(making, str(path))
    return str(path)


@pytest.fixture
def state(tmp_path, monkeypatch):
    """The folder of all local state, with a running service."""
    folder = tmp_path / "state"
    folder.mkdir()
    with running_service(folder / "vertex", *PRELOAD_KFP) as service:
        monkeypatch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
        monkeypatch.setenv("TRAINYARD_DIR", str(folder))
        yield folder


@pytest.fixture
def trainyard(state, capsys):
    """Run a command that must succeed; return its output."""

    def run(*arguments: str) -> str:
        assert main(list(arguments)) == 0, capsys.readouterr()
        return capsys.readouterr().out

    return run


@pytest.fixture
def submit(trainyard, package):
    """Start runs by name, wait for each, and return their tasks' states."""

    def start(*names: str, text: str = "a") -> dict[str, str]:
        for name in names:
            given = ["--name", name, "--set", f"text={text}"]
            trainyard("submit", package, "--wait", *given)
        details = json.loads(trainyard("runs", "show", names[-1], "--json"))["jobDetail"]
        return {one["taskName"]: one["state"] for one in details["taskDetails"]}

    return start


class FailingFiles:
    """Files of runs, of which some cannot be removed."""

    def __init__(self, errors: dict[str, Exception]):
        self._errors = errors
        self.removed: list[str] = []

    def remove(self, run, **_):
        if run in self._errors:
            raise self._errors[run]
        self.removed.append(run)

    def remove_leftovers(self):
        self.removed.append("leftovers")


@pytest.mark.fast
@pytest.mark.parametrize(
    "error",
    [VertexError(code=503, status="UNAVAILABLE", message="busy"), TimeoutError("busy")],
    ids=lambda error: type(error).__name__,
)
def test_a_run_that_cannot_be_removed_does_not_keep_the_others(error):
    runs = [OldRun(name=name, state="FAILED", created=0.0, ended=1.0) for name in ("b", "a")]
    files = FailingFiles({"b": error})

    failed, removed = prune(files, runs)

    assert "busy" in failed.reason
    assert (removed.name, removed.reason) == ("a", "")
    assert files.removed == ["a", "leftovers"]


def folders(state: Path) -> set[str]:
    return {path.name for path in (state / "runs").iterdir()}


def records(trainyard) -> set[str]:
    return {line.split()[0] for line in trainyard("runs", "list").splitlines()[1:]}


def fate(output: str) -> dict[str, str]:
    """Return the decision and reason by run."""
    rows = [line.split(maxsplit=4) for line in output.splitlines()[1:-1]]
    return {row[0]: " ".join(row[4].split()) for row in rows}


def prune_to(files: RunFiles, count: int) -> dict[str, str]:
    """Remove the oldest runs until the newest so many fit; return the reason by kept run."""
    num_bytes = sum(decision.num_bytes for decision in decide(files)[:count])
    done = prune(files, decide(files, max_gb=(num_bytes + 0.5) / GIGABYTE))
    return {decision.name: decision.reason for decision in done if decision.reason}


def test_old_runs_are_removed_and_their_steps_run_again(trainyard, submit, state):
    submit("one", "two")
    submit("three", text="b")

    files = RunFiles(connect(LOCAL_PROJECT, DEFAULT_LOCATION), state)
    kept = prune_to(files, 2)
    assert kept == {"three": FITS, "two": FITS, "one": "two uses its files"}
    assert folders(state) == records(trainyard) == {"one", "two", "three"}

    assert prune_to(files, 1) == {"three": FITS}
    assert folders(state) == records(trainyard) == {"three"}
    assert [path.name for path in (state / "vertex" / "pipelines").iterdir()] == ["three"]
    assert submit("four") == {"make": "SUCCEEDED", "use": "SUCCEEDED"}
    assert submit("five", text="b") == {"make": "SKIPPED", "use": "SUCCEEDED"}


def test_dry_run_young_and_unfinished_runs_and_used_files_change_nothing(
    trainyard, submit, package, state
):
    submit("one", "two")
    before = sorted(map(str, (state / "runs").rglob("*")))

    output = trainyard("prune", "--max-gb", "0", "--dry-run")

    assert set(fate(output).values()) == {"remove"}
    assert output.splitlines()[-1].startswith("would be removed: 2 of 2 runs")
    assert sorted(map(str, (state / "runs").rglob("*"))) == before
    assert records(trainyard) == {"one", "two"}

    output = trainyard("prune", "--older-than", "30d")
    assert set(fate(output).values()) == {f"keep {FITS}"}
    (state / "runs" / "latest").symlink_to("one")
    files = RunFiles(connect("local", "us-central1"), state)
    later = decide(files, older_than_seconds=30 * DAY, now=time.time() + 31 * DAY)
    assert {one.name: one.reason for one in later} == {"two": "", "one": ""}
    (state / "runs" / "latest").unlink()

    lock = os.open(state / "runs" / "one" / "make", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)  # as the service's runs do, before they are recorded
    output = trainyard("prune", "--max-gb", "0")
    assert fate(output)["one"].startswith("keep an unfinished run uses files in ")
    assert (state / "runs" / "one" / "make" / "made").exists()
    assert submit("three") == {"make": "SKIPPED", "use": "SUCCEEDED"}
    os.close(lock)

    trainyard("submit", package, "--name", "four", "--set", "seconds=600")
    shown = partial(trainyard, "runs", "show", "four", "--json")
    wait_until(lambda: "use" in shown().partition("jobDetail")[2], "the task")
    kept = fate(trainyard("prune", "--max-gb", "0"))
    assert (kept["four"], kept["one"]) == ("keep it is unfinished", "keep four uses its files")
    trainyard("runs", "cancel", "four")


def test_only_folders_of_runs_and_the_rest_of_an_interrupted_removal_are_removed(
    trainyard, submit, state, tmp_path
):
    submit("one")
    (state / "runs/.removed-x/zero").mkdir(parents=True)
    cache = state / "vertex/step_cache"
    (entry,) = cache.glob("*.json")
    (cache / "gone.json").write_text(entry.read_text().replace("/make/made", "/make/gone"))
    (cache / "damaged.json").write_text("{")
    trainyard("prune", "--older-than", "1h")
    assert folders(state) == {"one"}
    assert {path.name for path in cache.glob("*.json")} == {entry.name, "damaged.json"}

    runs, strange = state / "runs", tmp_path / "strange"
    for folder in (strange, runs / "notes", runs / "forgotten", runs / "begun", runs / "Other"):
        folder.mkdir()
        (folder / "file").write_text("precious")
    for name in ("forgotten", "begun", "Other"):
        (runs / name / "pipeline.yaml").write_text("root:")
    (strange / "pipeline.yaml").write_text("root:")
    (runs / "link").symlink_to(strange)
    (runs / "one" / "out").symlink_to(strange)
    os.utime(runs / "forgotten", (time.time() - DAY,) * 2)

    output = trainyard("prune", "--max-gb", "0")

    assert output.splitlines()[-1].startswith("removed: 2 of 3 runs, 0.")
    assert fate(output) == {
        "one": "remove",
        "begun": "keep it may have just started",
        "forgotten": "remove",
    }
    assert folders(state) == {"notes", "begun", "Other", "link"}
    assert (strange / "file").read_text() == "precious"


def test_delete_removes_files_unless_another_run_uses_them(trainyard, submit, state):
    submit("one", "two", "three")
    (state / "runs" / "latest").symlink_to("three")

    assert trainyard("runs", "delete", "three") == "deleted run three\n"
    assert folders(state) == {"one", "two"}
    assert (
        trainyard("runs", "delete", "one") == "deleted run one; its files are kept: two uses them\n"
    )
    assert folders(state) == {"one", "two"}
    assert records(trainyard) == {"two"}
    assert submit("four") == {"make": "SKIPPED", "use": "SUCCEEDED"}

    os.utime(state / "runs" / "one", (time.time() - DAY,) * 2)
    assert fate(trainyard("prune", "--max-gb", "0")) == {
        "four": "remove",
        "two": "remove",
        "one": "remove",
    }
    assert folders(state) == set()
    assert submit("five") == {"make": "SUCCEEDED", "use": "SUCCEEDED"}


@pytest.mark.fast
def test_prune_is_for_this_machine_and_asks_for_an_age_or_a_size(capsys):
    assert main(["prune", "--on", "vertex", "--project", "p"]) == 2
    assert "lifecycle rule" in capsys.readouterr().err
    assert main(["prune"]) == 2
    assert "give --older-than TIME, such as 30d, or --max-gb N, or both" in capsys.readouterr().err


def test_a_damaged_output_is_made_again_in_the_run_that_notices_it(trainyard, submit, state):
    submit("one")
    (file,) = (state / "runs" / "one").rglob("made")
    file.write_text("b")

    assert submit("two") == {"make": "SUCCEEDED", "use": "SUCCEEDED"}

    note = f"its cached output was dropped: {file} has changed or is missing"
    assert note in trainyard("runs", "show", "two")
    assert note in trainyard("runs", "logs", "two", "--task", "make")
    assert submit("three") == {"make": "SKIPPED", "use": "SUCCEEDED"}


def test_no_cache_replaces_the_outputs_in_the_cache(trainyard, submit, package, state):
    def made(run: str) -> dict:
        details = json.loads(trainyard("runs", "show", run, "--json"))["jobDetail"]["taskDetails"]
        return next(one for one in details if one["taskName"] == "make")

    submit("one")
    trainyard("submit", package, "--wait", "--no-cache", "--name", "two", "--set", "text=a")
    assert made("two")["state"] == "SUCCEEDED"
    assert submit("three") == {"make": "SKIPPED", "use": "SUCCEEDED"}
    assert made("three")["outputs"] == made("two")["outputs"]
    assert "/runs/two/" in json.dumps(made("three")["outputs"])


def test_many_runs_are_removed_with_the_cache_read_once_and_the_database_shrinks(
    tmp_path, monkeypatch
):
    spec = {"pipelineInfo": {"name": "p"}, "root": {"dag": {"tasks": {"a": {}}}}}
    fill(tmp_path, spec=spec, num_runs=60)
    database, reads = tmp_path / "vertex" / "vertex.db", []
    size = database.stat().st_size
    monkeypatch.setattr(
        removal_files, "read_entry", lambda entry: reads.append(entry) or read_entry(entry)
    )
    with running_service(tmp_path / "vertex") as service:
        monkeypatch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
        files = RunFiles(connect(LOCAL_PROJECT, DEFAULT_LOCATION), tmp_path)
        decisions = decide(files)
        kept = list(prune_to(files, 5))
    assert kept == [f"run-{number}" for number in range(59, 54, -1)]
    assert len(reads) == 60 + 5, "all before the removals, and what is left afterwards"
    assert sorted(path.name for path in (tmp_path / "vertex" / "jobs").iterdir()) == [
        decision.jobs[0]["name"].rpartition("/")[2] for decision in decisions[4::-1]
    ]
    assert database.stat().st_size < size / 2
