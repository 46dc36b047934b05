"""Jobs and pipelines whose processes sleep, and outlive the process that started them."""

from pathlib import Path

import pytest
import yaml
from kfp import compiler, dsl

from vertex_local.tests.support.jobs import job, pool

# Each leaves two processes: by a child of its own, in a session of its own, and as a daemon that
# has left its parent and its environment as well.
SHELLS = {
    "child": "sleep {0} & sleep {0}",
    "own-session": "setsid sleep {0} & sleep {0}",
    "daemon": "(setsid env -i sleep {0} &) ; sleep {0}",
}

SHELL_CASES = [
    pytest.param(
        shell, id=name, marks=[pytest.mark.linux("PID namespaces")] if name == "daemon" else []
    )
    for name, shell in SHELLS.items()
]


def shell_job(script: str) -> dict:
    return job(pool("", command=["sh", "-c", script]))


STEP = {"base_image": "python:3.11"}


@dsl.component(**STEP)
def sleep(marker: str):
    import subprocess
    import tempfile

    tempfile.mkdtemp()
    subprocess.run(["sh", "-c", f"setsid sleep {marker} & sleep {marker}"], check=True)


@dsl.pipeline(name="sleeps")
def sleeps(marker: str):
    sleep(marker=marker)


def submit_sleeps(service, marker: str, folder: Path) -> None:
    compiler.Compiler().compile(sleeps, str(folder / "sleeps.yaml"))
    spec = yaml.safe_load((folder / "sleeps.yaml").read_text())
    root = {"gcsOutputDirectory": str(folder / "root"), "parameterValues": {"marker": marker}}
    service.do("POST", "pipelineJobs", {"pipelineSpec": spec, "runtimeConfig": root})
