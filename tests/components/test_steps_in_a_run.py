"""Steps of a run that are lost, fail or hang, with the retries of the pipeline."""

from pathlib import Path

import pytest
from kfp import dsl

from components import IMAGE
from pipelines.dags.parts import RETRY
from vertex_local.tests.support.pipeline_runs import Runs

pytestmark = [pytest.mark.usefixtures("temp_folder"), pytest.mark.timeout(120)]


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def step(folder: str, ends: str) -> str:
    import os
    import signal
    import time
    from pathlib import Path

    from components.errors import StepError, errors_in_one_line

    with errors_in_one_line() as limit:
        with Path(folder, "attempts").open("a") as file:
            file.write(f"{ends}\n")
        if ends == "hangs":
            limit.set(0.5, setting="gate.timeout_seconds")
            time.sleep(600)
        if ends == "badly":
            raise StepError("thresholds.auc is 'x'; it must be a number")
        if ends == "unexpectedly":
            raise KeyError("label")
        if ends == "full":
            raise OSError(28, "No space left on device")
        if Path(folder, "attempts").read_text() == "lost\n":
            os.kill(os.getpid(), signal.SIGKILL)
    return "done"


@dsl.pipeline(name="one-step")
def one_step(folder: str, ends: str):
    step(folder=folder, ends=ends).set_retry(**RETRY).set_caching_options(False)


@pytest.fixture
def service(forking_service):
    return forking_service


@pytest.mark.parametrize(
    ("ends", "state", "num_attempts", "message"),
    [
        ("lost", "SUCCEEDED", 2, ""),
        ("full", "FAILED", 2, "error: [Errno 28] No space left on device"),
        ("badly", "FAILED", 1, "error: thresholds.auc is 'x'; it must be a number"),
        ("unexpectedly", "FAILED", 1, "KeyError: 'label'"),
        ("hangs", "FAILED", 2, "within 0.5 s; if it needs more, raise gate.timeout_seconds; its"),
    ],
)
def test_a_lost_step_is_repeated_and_a_hanging_one_ends(
    service, tmp_path, ends, *, state, num_attempts, message
):
    runs = Runs(service, tmp_path)
    values = {"folder": str(runs.folder), "ends": ends}

    job = runs.wait(runs.submit(one_step, parameterValues=values))

    assert job["state"] == f"PIPELINE_STATE_{state}"
    assert Path(runs.folder, "attempts").read_text() == f"{ends}\n" * num_attempts
    last_line = job.get("error", {}).get("message", "").rstrip().rpartition("\n")[2]
    assert message in last_line
    if ends == "hangs":
        assert "in step\n" in (runs.files(job) / "tasks" / "step.log").read_text()
