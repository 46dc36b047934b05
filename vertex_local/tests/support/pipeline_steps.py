"""Steps of test pipelines that echo, hang, or note the run's state."""

import json
from pathlib import Path

from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from kfp import dsl

from vertex_local.tests.support.pipeline_runs import STEP, Runs
from vertex_local.tests.support.service import PROJECT_AND_LOCATION


@dsl.component(**STEP)
def leave_note(folder: str, status: dsl.PipelineTaskFinalStatus):
    import json
    from pathlib import Path

    fields = {"state": status.state, "job": status.pipeline_job_resource_name}
    note = json.dumps({**fields, "error": status.error_message})
    (Path(folder) / "note.json").write_text(note)


@dsl.component(**STEP)
def hang(folder: str):
    import os
    import subprocess
    import sys
    import time
    from pathlib import Path

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (Path(folder) / "pids").write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)


@dsl.component(**STEP)
def echo(text: str) -> str:
    import sys

    sys.stdout.write(f"\033[91m{text}\033[0m\n")
    return text


@dsl.pipeline(name="job-hangs")
def job_hangs(folder: str):
    code = f"import os, time; open('{folder}/pids', 'w').write(str(os.getpid())); time.sleep(600)"
    command = {"image_uri": "any", "command": ["python", "-c", code]}
    pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}
    with dsl.ExitHandler(leave_note(folder=folder)):
        CustomTrainingJobOp(
            display_name="train",
            worker_pool_specs=[{**pool, "container_spec": command}],
            **PROJECT_AND_LOCATION,
        )


@dsl.component(**STEP)
def mark(folder: str, text: str) -> str:
    """Add a line to FOLDER/marks, to count executions."""
    from pathlib import Path

    with (Path(folder) / "marks").open("a") as marks:
        marks.write(f"{text}\n")
    return text


@dsl.component(**STEP)
def close_down(folder: str, name: str, status: dsl.PipelineTaskFinalStatus):
    """Add the status to FOLDER/NAME, send a request to the service, wait while NAME.hold exists."""
    import json
    import os
    import time
    import urllib.request
    from pathlib import Path

    host, job = os.environ["VERTEX_EMULATOR_HOST"], status.pipeline_job_resource_name
    token = os.environ.get("VERTEX_EMULATOR_TOKEN", "")
    fields = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"http://{host}/v1/{job}", headers=fields)
    with urllib.request.urlopen(request, timeout=30) as response:
        seen = json.load(response)["state"]
    line = {"state": status.state, "error": status.error_message, "seen": seen}
    with (Path(folder) / name).open("a") as notes:
        notes.write(json.dumps(line) + "\n")
    while (Path(folder) / f"{name}.hold").exists():
        time.sleep(0.02)


@dsl.pipeline(name="one-hangs")
def one_hangs(folder: str):
    with dsl.ExitHandler(close_down(folder=folder, name="notes")):
        marked = mark(folder=folder, text="first").set_caching_options(False)
        hung = hang(folder=folder).after(marked)
        echo(text="later").after(hung)


def notes(runs: Runs, name: str = "notes") -> list[dict]:
    path = runs.folder / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def hold(runs: Runs, name: str = "notes") -> Path:
    path = runs.folder / f"{name}.hold"
    path.touch()
    return path
