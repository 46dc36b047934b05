"""Processes forked from one that has imported TensorFlow, against new processes.

First a whole run of the pipeline. Then a cluster of six replicas on a warm service: the time from
the job's submission to its first step, and from the chief's end to the job's. Last, the time to the
first step on a service that is still importing, against two imports of TensorFlow.
"""

import argparse
import contextlib
import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

from benchmarks.support.clusters import examples, read_metrics, scratch
from benchmarks.support.report import report
from pipelines.places.local_service import PRELOAD, PRELOAD_VARIABLE, preload_flags

TIMEOUT_SECONDS = 280
PARENT = "projects/local/locations/us-central1"
# For workloads whose default cluster has one replica.
CLUSTER_FILES = {"taxi": "configs/clusters/taxi_parameter_server.yaml"}
COUNTS = (1, 4, 1)  # chief, workers, parameter server
# One step per call and report, so that the time of the first step is known.
FLAGS = ["--steps=20", "--steps-per-call=1", "--log-every-steps=1"]
FINAL_STATES = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED")


def main() -> None:
    """Measure both ways alternately, and print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="runs of each; default: %(default)s")
    parser.add_argument("--workloads", nargs="*", default=["mnist"], help="pipelines to run")
    parser.add_argument("--no-cluster", action="store_true", help="leave out the cluster")
    arguments = parser.parse_args()
    for workload in arguments.workloads:
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            ours.append(_run_seconds(workload, preload=PRELOAD))
            theirs.append(_run_seconds(workload, preload=""))
        _compare(f"trainyard run {workload} --no-cache", ours, theirs)
    if not arguments.no_cluster:
        pairs = [(_cluster_seconds(PRELOAD), _cluster_seconds("")) for _ in range(arguments.rounds)]
        for key, name in (("first_step", "to the first step"), ("end", "from the chief's end")):
            measured = [[one[key] for one in way] for way in zip(*pairs, strict=True)]
            _compare(f"chief + 4 workers + 1 ps: {name}", *measured)
        cold, imports = [], []
        for _ in range(arguments.rounds):
            cold.append(_cluster_seconds("tensorflow", is_cold=True)["first_step"])
            imports.append(round(2 * _import_seconds(), 2))
        _compare("chief + 4 workers + 1 ps: to the first step, cold", cold, imports)


def _compare(name: str, ours: list[float], theirs: list[float]) -> None:
    sys.stderr.write(f"{name}: {ours} against {theirs}\n")
    report(name, ours=ours, theirs=theirs, unit="s", lower_is_better=True)


def _run_seconds(workload: str, *, preload: str) -> float:
    """Return the seconds of a run in a new folder, with the start of Python and the service."""
    with scratch() as folder:
        env = {**os.environ, "TRAINYARD_DIR": str(folder), PRELOAD_VARIABLE: preload}
        command = ["run", workload, "--no-cache", "--data-dir", str(Path(".trainyard/cache"))]
        if workload in CLUSTER_FILES:
            command += ["--cluster", CLUSTER_FILES[workload]]
        began = time.perf_counter()
        run = subprocess.run(
            [sys.executable, "-m", "pipelines.cli", *command],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if run.returncode:
            raise RuntimeError(f"the run failed:\n{run.stdout.decode()[-3000:]}")
        return round(time.perf_counter() - began, 2)


def _import_seconds() -> float:
    """Return the seconds that a new interpreter takes to import TensorFlow."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import tensorflow"], check=True, capture_output=True)
    return round(time.perf_counter() - began, 2)


def _cluster_seconds(preload: str, *, is_cold: bool = False) -> dict[str, float]:
    """Return the seconds from submission to first step, and from the chief's end to the job's."""
    with scratch() as folder, _service(folder / "vertex", preload, is_cold=is_cold) as url:
        output = folder / "out"
        submitted = time.time()
        job = _request("POST", f"{url}/v1/{PARENT}/customJobs", _job(output))
        name = job["name"]
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while job["state"] not in FINAL_STATES:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} is {job['state']} after {TIMEOUT_SECONDS} s")
            time.sleep(0.1)
            job = _request("GET", f"{url}/v1/{name}")
        if job["state"] != "JOB_STATE_SUCCEEDED":
            raise RuntimeError(f"the job failed: {job}")
        state = folder / "vertex" / "jobs" / name.rpartition("/")[2] / "state.json"
        replicas = json.loads(state.read_text())["replicas"]
        first = next(line for line in read_metrics(output) if line["split"] == "train")
        return {
            "first_step": round(first["time"] - submitted, 2),
            "end": round(_moment(job["endTime"]) - _moment(replicas["chief/0"]["ended"]), 2),
        }


@contextlib.contextmanager
def _service(root: Path, preload: str, *, is_cold: bool) -> Iterator[str]:
    """Start a service and yield its URL; unless `is_cold`, wait until its imports are done."""
    root.mkdir()
    flags = preload_flags(preload)
    with (root / "service.log").open("wb") as log:
        serve = [sys.executable, "-m", "vertex_local.cli", "serve", "--root", str(root), *flags]
        process = subprocess.Popen(serve, stdout=log, stderr=log)
    try:
        _await_text(root / "service.log", "is ready at")
        if preload and not is_cold:
            _await_text(root / "warm.log", f"ready: {preload.rsplit(maxsplit=1)[-1]}")
        yield json.loads((root / "server.json").read_text())["url"]
    finally:
        process.terminate()
        process.wait(60)


def _await_text(path: Path, text: str) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or text not in path.read_text():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{text!r} was not in {path} after 60 s")
        time.sleep(0.05)


def _job(output: Path) -> dict[str, Any]:
    command = ["python", "-m", "trainer.task", "--workload", "mnist"]
    arguments = ["--examples-dir", str(examples("mnist").resolve()), *FLAGS]
    pools = [
        {
            "replicaCount": str(count),
            "machineSpec": {"machineType": "n1-standard-4"},
            "containerSpec": {"imageUri": "none", "command": command, "args": arguments},
        }
        for count in COUNTS
    ]
    return {
        "displayName": "warm start",
        "jobSpec": {
            "workerPoolSpecs": pools,
            "baseOutputDirectory": {"outputUriPrefix": str(output)},
        },
    }


def _request(method: str, url: str, body: Any = None) -> dict[str, Any]:
    response = requests.request(method, url, json=body, timeout=60)
    response.raise_for_status()
    content: dict[str, Any] = response.json()
    return content


def _moment(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


if __name__ == "__main__":
    main()
