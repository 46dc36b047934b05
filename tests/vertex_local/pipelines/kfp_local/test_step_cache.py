import contextlib
import fcntl
import os

import pytest
from kfp import dsl
from kfp.local.cache import LocalCache

from vertex_local.pipelines.kfp_local import patches
from vertex_local.pipelines.kfp_local.step_cache import StepCache

pytestmark = pytest.mark.fast

METHODS = ("get", "put", "_serialize_artifact", "_deserialize_artifact")


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """Function that starts a run with the same cache; `end` releases the locks of a run."""
    originals = {name: LocalCache.__dict__[name] for name in METHODS}
    written = set()

    def start() -> tuple[LocalCache, StepCache]:
        for name, original in originals.items():
            monkeypatch.setattr(LocalCache, name, original)
        steps = patches._patch_cache(written.__contains__)
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
