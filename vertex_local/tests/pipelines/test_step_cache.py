import contextlib
import fcntl
import json
import os
from pathlib import Path

import pytest

from vertex_local.pipelines import step_cache
from vertex_local.pipelines.record import Leaf
from vertex_local.pipelines.run_state import Task
from vertex_local.pipelines.step_cache import StepCache
from vertex_local.rules.values import TaskValues

pytestmark = pytest.mark.fast


def job(name="one", parent="projects/p/locations/l", outputs="text", refreshes=False):
    """PipelineJob of a pipeline with a component `comp-say`."""
    definitions = {"parameters": {outputs: {"parameterType": "STRING"}}}
    return {
        "name": f"{parent}/pipelineJobs/run",
        "refreshesCache": refreshes,
        "pipelineSpec": {
            "pipelineInfo": {"name": name},
            "components": {"comp-say": {"outputDefinitions": definitions}},
        },
    }


class Run:
    """A run with a cache that it shares with the others, and its step `say`."""

    def __init__(self, cache: StepCache, folder: Path) -> None:
        self.cache = cache
        leaf = Leaf(key="/say", name="say", display_name="say-it")
        log_path = folder / "tasks" / "say.log"
        self.task = Task(id=1, leaf=leaf, scope="", unique_name="say", log_path=log_path)

    def get(self, key: str) -> TaskValues | None:
        return self.cache.get(key, self.task)

    def put(self, key: str, outputs: TaskValues) -> None:
        self.cache.put(key, outputs)

    def end(self) -> None:
        """Release the locks, as the end of its process does."""
        for lock, _ in self.cache.locks.values():
            os.close(lock)


@pytest.fixture
def runs(tmp_path):
    """Function that starts a run with the same cache; `written` has folders that jobs write."""

    def start(**changes) -> Run:
        cache = StepCache(
            tmp_path / "cache", job=job(**changes), is_being_written=start.written.__contains__
        )
        return Run(cache, tmp_path)

    start.written = set()
    return start


def artifact(kind: str, path: Path) -> TaskValues:
    """Output of a step: an artifact."""
    made = {"name": kind, "uri": str(path), "type": {"schemaTitle": kind}, "metadata": {}}
    return TaskValues(artifacts={kind: [made]})


@pytest.fixture
def plan(tmp_path):
    """Output of a step: a model that does not exist yet."""
    return artifact("model", tmp_path / "run-1" / "model")


def train(plan):
    with open(plan.artifacts["model"][0]["uri"], "w") as file:
        file.write("weights")


def test_the_next_run_reuses_a_pending_output_of_an_interrupted_run_but_not_during_it(runs, plan):
    run = runs()
    run.put("key", plan)
    assert runs().get("key") is None
    assert run.get("key") is not None
    run.end()
    assert runs().get("key") == plan
    assert runs().get("key") is None, "the second run is at work now"


def test_a_pending_output_is_not_reused_while_a_job_of_a_killed_run_writes(runs, plan, tmp_path):
    run = runs()
    run.put("key", plan)
    run.end()
    runs.written.add(tmp_path / "run-1")
    assert runs().get("key") is None
    runs.written.clear()
    assert runs().get("key") is not None


def test_a_pending_output_needs_its_file_once_it_was_written(runs, plan, tmp_path):
    run = runs()
    run.put("key", plan)
    train(plan)
    run.cache.complete_pending()
    assert runs().get("key") is not None, "a whole output is for all"
    (tmp_path / "run-1" / "model").unlink()
    assert runs().get("key") is None


def test_outputs_in_use_are_locked_against_removal(runs, plan, tmp_path):
    run = runs()
    run.put("key", plan)
    train(plan)
    run.cache.complete_pending()
    run.end()
    run = runs()
    assert run.get("key") is not None
    with locked(tmp_path / "run-1") as is_locked:
        assert not is_locked
    run.end()
    with locked(tmp_path / "run-1") as is_locked:
        assert is_locked
        assert runs().get("key") is None, "it is being removed"
    assert runs().get("key") is not None


@contextlib.contextmanager
def locked(folder):
    """Hold the lock of a process that removes a folder."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)


def test_an_output_that_a_later_run_has_written_is_locked_against_removal(runs, plan, tmp_path):
    run = runs()
    run.put("key", plan)
    run.end()
    run = runs()
    assert run.get("key") is not None
    train(plan)
    run.cache.complete_pending()
    (tmp_path / "run-1" / "model").unlink()
    run.end()
    assert runs().get("key") is None


def test_a_pending_output_without_a_folder_is_not_reused(runs, plan, tmp_path):
    run = runs()
    run.put("key", plan)
    run.end()
    (tmp_path / "run-1").rmdir()
    assert runs().get("key") is None


def key_of(run, *, custom="", text="a", **changes):
    """Key of the step `say`."""
    container = {"image": "python", "command": ["say"], "args": [], "env": [], **changes}
    return run.cache.key("comp-say", container, TaskValues({"text": text}), custom=custom)


@pytest.mark.parametrize("custom", ["", "mine"], ids=["inputs", "cache_key"])
@pytest.mark.parametrize(
    "changes",
    [
        {"name": "two"},
        {"parent": "projects/q/locations/l"},
        {"parent": "projects/p/locations/m"},
        {"outputs": "other"},
    ],
    ids="-".join,
)
def test_pipelines_share_the_cache_if_name_project_location_and_outputs_are_equal(
    runs, changes, custom
):
    key = key_of(runs(), custom=custom)
    assert key_of(runs(), custom=custom) == key
    assert key_of(runs(**changes), custom=custom) != key


def test_a_cache_key_replaces_the_inputs_but_not_the_component(runs):
    run = runs()
    key = key_of(run, custom="mine")
    assert key_of(run, custom="mine", text="b") == key
    for code in ({"image": "other"}, {"command": ["cry"]}, {"env": [{"name": "A", "value": "1"}]}):
        assert key_of(run, custom="mine", **code) != key
    assert key_of(run, custom="yours") != key
    assert key_of(run) != key_of(run, text="b")


@pytest.fixture
def examples(tmp_path):
    """Output of a step: a folder with two files."""
    folder = tmp_path / "run-1" / "examples"
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"0" * 100)
    (folder / "b").write_bytes(b"1" * 100)
    return artifact("examples", folder)


def flip_a_byte(file):
    """Damage a file as a disk does, without a change of its size and time."""
    status = file.stat()
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def append(file):
    file.write_bytes(file.read_bytes() + b"x")


@pytest.mark.parametrize(
    "damage",
    [flip_a_byte, append, lambda file: file.unlink()],
    ids=["flipped-byte", "longer", "missing"],
)
def test_a_damaged_output_is_dropped_and_named(runs, examples, tmp_path, damage):
    runs().put("key", examples)
    file = tmp_path / "run-1" / "examples" / "b"
    (file.parent / "added-later").touch()
    assert runs().get("key") is not None
    damage(file)

    run = runs()
    assert run.get("key") is None

    assert run.task.note == f"its cached output was dropped: {file} has changed or is missing"
    assert run.task.log_path.read_text() == f"{run.task.note}\n"
    assert list((tmp_path / "cache").iterdir()) == []


def test_of_files_beyond_the_limit_size_and_time_are_compared(
    runs, examples, tmp_path, monkeypatch
):
    monkeypatch.setattr(step_cache, "HASHED_BYTES", 150)
    runs().put("key", examples)
    flip_a_byte(tmp_path / "run-1" / "examples" / "b")
    assert runs().get("key") is not None
    append(tmp_path / "run-1" / "examples" / "b")
    assert runs().get("key") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"[]",
        lambda content: b"{}",
        lambda content: content[:-20],
        lambda content: b"\xff\xfe" + content,
        lambda content: content.replace(b'"examples"', b'"exanples"'),
        lambda content: json.dumps({"outputs": [1], "digest": "0"}).encode(),
    ],
    ids=["empty", "list", "object", "cut", "not-utf-8", "flipped-byte", "wrong-types"],
)
def test_a_damaged_entry_is_dropped(runs, examples, tmp_path, damage):
    runs().put("key", examples)
    (entry,) = (tmp_path / "cache").iterdir()
    entry.write_bytes(damage(entry.read_bytes()))

    run = runs()
    assert run.get("key") is None

    assert str(entry) in run.task.note
    assert not entry.exists()


def test_a_run_that_refreshes_the_cache_replaces_what_others_have_put_there(runs):
    key = key_of(runs())
    runs(refreshes=True).put(key, TaskValues({"text": "unwanted"}))
    assert runs().get(key) is None, "no run has cached the step"
    runs().put(key, TaskValues({"text": "old"}))
    refreshing = runs(refreshes=True)
    assert refreshing.get(key) is None
    refreshing.put(key, TaskValues({"text": "new"}))
    assert runs().get(key) == TaskValues({"text": "new"})
