import contextlib
import fcntl
import json
import os
from types import SimpleNamespace

import pytest
from kfp import dsl
from kfp.local.cache import LocalCache

from vertex_local.pipelines.kfp_local import patches, step_cache
from vertex_local.pipelines.kfp_local.step_cache import StepCache
from vertex_local.pipelines.record import Leaf

pytestmark = pytest.mark.fast

METHODS = ("compute_key", "get", "put", "_serialize_artifact", "_deserialize_artifact")


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


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Function that starts a run with the same cache; `end` releases the locks of a run."""
    originals = {name: LocalCache.__dict__[name] for name in METHODS}
    written = set()

    def start(**changes) -> tuple[LocalCache, StepCache]:
        for name, original in originals.items():
            monkeypatch.setattr(LocalCache, name, original)
        leaf = Leaf(key="/say", name="say", display_name="say-it")
        start.task = SimpleNamespace(leaf=leaf, note="", log_path=tmp_path / "tasks" / "say.log")
        run = SimpleNamespace(current=start.task)
        steps = patches._patch_cache(run, job(**changes), written.__contains__)
        run = type("Run", (LocalCache,), {name: LocalCache.__dict__[name] for name in METHODS})
        return run(str(tmp_path / "cache")), steps

    start.written = written
    return start


@pytest.fixture
def plan(tmp_path):
    """Output of a step: a model that does not exist yet."""
    return {"model": dsl.Model(name="model", uri=str(tmp_path / "run-1" / "model"))}


def train(plan):
    with open(plan["model"].uri, "w") as file:
        file.write("weights")


def end(steps):
    """Release the locks of a run, as the end of its process does."""
    for lock, _ in steps._locks.values():
        os.close(lock)


def test_the_next_run_reuses_the_plan_of_an_interrupted_run(runs, plan):
    cache, steps = runs()
    cache.put("key", plan)
    end(steps)

    found = runs()[0].get("key")

    assert found["model"].uri == plan["model"].uri


def test_a_pending_output_is_not_reused_during_its_run(runs, plan):
    cache, steps = runs()
    cache.put("key", plan)
    assert runs()[0].get("key") is None
    assert cache.get("key") is not None
    end(steps)
    assert runs()[0].get("key") is not None
    assert runs()[0].get("key") is None, "the second run is at work now"


def test_a_pending_output_is_not_reused_while_a_job_of_a_killed_run_writes(runs, plan, tmp_path):
    cache, steps = runs()
    cache.put("key", plan)
    end(steps)
    runs.written.add(tmp_path / "run-1")
    assert runs()[0].get("key") is None
    runs.written.clear()
    assert runs()[0].get("key") is not None


def test_a_pending_output_needs_its_file_once_it_was_written(runs, plan, tmp_path):
    cache, steps = runs()
    cache.put("key", plan)
    train(plan)
    steps.complete_pending()
    assert runs()[0].get("key") is not None, "a whole output is for all"
    (tmp_path / "run-1" / "model").unlink()
    assert runs()[0].get("key") is None


def test_outputs_in_use_are_locked_against_removal(runs, plan, tmp_path):
    cache, steps = runs()
    cache.put("key", plan)
    train(plan)
    steps.complete_pending()
    end(steps)
    cache, steps = runs()
    assert cache.get("key") is not None
    with locked(tmp_path / "run-1") as is_locked:
        assert not is_locked
    end(steps)
    with locked(tmp_path / "run-1") as is_locked:
        assert is_locked
        assert runs()[0].get("key") is None, "it is being removed"
    assert runs()[0].get("key") is not None


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
    cache, steps = runs()
    cache.put("key", plan)
    end(steps)
    cache, steps = runs()
    assert cache.get("key") is not None
    train(plan)
    steps.complete_pending()
    (tmp_path / "run-1" / "model").unlink()
    end(steps)
    assert runs()[0].get("key") is None


def test_a_pending_output_without_a_folder_is_not_reused(runs, plan, tmp_path):
    cache, steps = runs()
    cache.put("key", plan)
    end(steps)
    (tmp_path / "run-1").rmdir()
    assert runs()[0].get("key") is None


def test_artifacts_with_metadata_only_are_never_pending(runs, tmp_path):
    metrics = {"metrics": dsl.Metrics(name="metrics", uri=str(tmp_path / "metrics"))}
    runs()[0].put("key", metrics)
    assert runs()[0].get("key") is not None
    assert runs()[0].get("key") is not None


def key_of(cache, **changes):
    """Key of the step, as kfp.local's executor computes it."""
    facts = {"image": "python", "full_command": ["say"], "arguments": {"text": "a"}}
    return cache.compute_key(
        **{
            "component_name": "comp-say",
            "env_vars": {},
            "custom_cache_key": None,
            **facts,
            **changes,
        }
    )


@pytest.mark.parametrize("custom", [None, "mine"], ids=["inputs", "cache_key"])
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
    key = key_of(runs()[0], custom_cache_key=custom)
    assert key_of(runs()[0], custom_cache_key=custom) == key
    assert key_of(runs(**changes)[0], custom_cache_key=custom) != key


def test_a_cache_key_replaces_the_inputs_but_not_the_component(runs):
    cache, _ = runs()
    key = key_of(cache, custom_cache_key="mine")
    assert key_of(cache, custom_cache_key="mine", arguments={"text": "b"}) == key
    for code in ({"image": "other"}, {"full_command": ["cry"]}, {"env_vars": {"A": "1"}}):
        assert key_of(cache, custom_cache_key="mine", **code) != key
    assert key_of(cache, custom_cache_key="yours") != key


@pytest.fixture
def examples(tmp_path):
    """Output of a step: a folder with two files."""
    folder = tmp_path / "run-1" / "examples"
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"0" * 100)
    (folder / "b").write_bytes(b"1" * 100)
    return {"examples": dsl.Dataset(name="examples", uri=str(folder))}


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
    runs()[0].put("key", examples)
    file = tmp_path / "run-1" / "examples" / "b"
    (file.parent / "added-later").touch()
    assert runs()[0].get("key") is not None
    damage(file)

    assert runs()[0].get("key") is None

    assert runs.task.note == f"its cached output was dropped: {file} has changed or is missing"
    assert runs.task.log_path.read_text() == f"{runs.task.note}\n"
    assert list((tmp_path / "cache").iterdir()) == []


def test_of_files_beyond_the_limit_size_and_time_are_compared(
    runs, examples, tmp_path, monkeypatch
):
    monkeypatch.setattr(step_cache, "HASHED_BYTES", 150)
    runs()[0].put("key", examples)
    flip_a_byte(tmp_path / "run-1" / "examples" / "b")
    assert runs()[0].get("key") is not None
    append(tmp_path / "run-1" / "examples" / "b")
    assert runs()[0].get("key") is None


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
    runs()[0].put("key", examples)
    (entry,) = (tmp_path / "cache").iterdir()
    entry.write_bytes(damage(entry.read_bytes()))

    assert runs()[0].get("key") is None

    assert str(entry) in runs.task.note
    assert not entry.exists()


def test_a_run_that_refreshes_the_cache_replaces_what_others_have_put_there(runs, examples):
    key = key_of(runs()[0])
    refreshing, _ = runs(refreshes=True)
    refreshing.put(key, {"text": "unwanted"})
    cache, _ = runs()
    assert cache.get(key) is None, "no run has cached the step"
    cache.put(key, {"text": "old"})
    refreshing, _ = runs(refreshes=True)
    assert refreshing.get(key) is None
    refreshing.put(key, {"text": "new"})
    assert runs()[0].get(key) == {"text": "new"}
