"""Folders of local state with many finished runs and model versions, written without running any.

The service must not run. A run has what a promoted run leaves: its record, journal and folders, a
training job, and an entry of the step cache.
"""

import json
import threading
from pathlib import Path

from components.shared.vertex.labels import RUN_LABEL
from pipelines.places.target import DEFAULT_LOCATION, LOCAL_PROJECT
from vertex_local.api.database.store import Store
from vertex_local.api.service import Service
from vertex_local.machine.clock import now
from vertex_local.models import resource as models
from vertex_local.pipelines.journal import Journal

PARENT = f"projects/{LOCAL_PROJECT}/locations/{DEFAULT_LOCATION}"
MODEL = "mnist"


def fill(
    state_dir: Path,
    *,
    spec: dict,
    num_runs: int = 0,
    num_versions: int = 0,
    num_schedules: int = 0,
) -> None:
    """Add finished runs of a pipeline, named run-0 and so on, versions of one model, schedules."""
    root = state_dir / "vertex"
    root.mkdir(parents=True, exist_ok=True)
    store = Store(root / "vertex.db")
    service = Service(root=root, store=store, url="")
    try:
        with store.atomic():
            for number in range(num_runs):
                _add_run(state_dir, store, f"run-{number}", spec=spec)
            for number in range(num_schedules):
                _add_schedule(store, number, spec=spec)
        for number in range(num_versions):
            _add_version(service, is_first=not number)
    finally:
        store.close()


def _add_run(state_dir: Path, store: Store, run: str, *, spec: dict) -> None:
    ended = {"state": "SUCCEEDED", "createTime": now(), "startTime": now(), "endTime": now()}
    labels = {RUN_LABEL: run, "vertex-ai-pipelines-run-billing-id": store.next_id()}
    facts = {"outcome": "promoted", "tone": "good", "workload": MODEL, "metric": "accuracy"}
    facts |= {"value": int(store.next_id()) % 977 / 977, "gain": 0.01, "cost": 0.02}
    config = {
        "gcsOutputDirectory": str(state_dir / "runs"),
        "parameterValues": {"workload": MODEL, "model_name": MODEL, "train": '{"epochs": 5}'},
    }
    job_id = store.next_id()
    records = {
        f"pipelineJobs/{run}": {
            "pipelineSpec": spec,
            "runtimeConfig": config,
            "jobDetail": {"pipelineRunContext": {"metadata": facts}},
        },
        f"customJobs/{job_id}": {"jobSpec": {"workerPoolSpecs": [{"replicaCount": "1"}]}},
    }
    for path, body in records.items():
        prefix = "PIPELINE" if path.startswith("pipeline") else "JOB"
        name, state = f"{PARENT}/{path}", f"{prefix}_STATE_SUCCEEDED"
        common = {"name": name, "displayName": run, "labels": labels, **ended, "state": state}
        store.insert(name, {**body, **common})
    (state_dir / "vertex" / "jobs" / job_id).mkdir(parents=True)
    output = state_dir / "runs" / run / "prepare-examples" / "examples"
    output.mkdir(parents=True)
    (output / "train.tfrecord.gz").write_bytes(b"x" * 1000)
    (state_dir / "runs" / run / "pipeline.yaml").write_text("{}")
    _write_journal(state_dir / "vertex" / "pipelines" / run, spec=spec, output=output)
    cache = state_dir / "vertex" / "step_cache"
    cache.mkdir(exist_ok=True)
    artifacts = {"examples": [{"uri": str(output)}]}
    entry = {"outputs": {"artifacts": artifacts}}
    (cache / f"0123-{run}.json").write_text(json.dumps(entry))


def _write_journal(folder: Path, *, spec: dict, output: Path) -> None:
    folder.mkdir(parents=True)
    journal = Journal(folder)
    for number, name in enumerate(spec["root"]["dag"]["tasks"]):
        named = {"id": number, "name": name, "unique_name": name, "display_name": name}
        journal.write("task_started", **named, scope="", key=f"/{name}")
        artifact = {"name": "examples", "uri": str(output), "type": {}, "metadata": {}}
        journal.write(
            "task_ended",
            **{"id": number, "state": "SUCCEEDED", "error": "", "note": ""},
            **{"inputs": {}, "outputs": {}, "input_artifacts": {}},
            output_artifacts={"examples": [artifact]},
        )
    journal.write("pipeline_ended", state="SUCCEEDED", error="")


def _add_schedule(store: Store, number: int, *, spec: dict) -> None:
    name, label = f"{PARENT}/schedules/{number}", f"schedule-{number}"
    job = {"labels": {"trainyard_schedule": label, "trainyard_run": "run-1"}, "pipelineSpec": spec}
    body = {"name": name, "displayName": label, "cron": "0 3 * * *", "state": "ACTIVE"}
    body |= {"startedRunCount": "0", "maxConcurrentRunCount": "1", "createTime": now()}
    body["nextRunTime"] = "2099-01-01T03:00:00Z"
    request = {"parent": PARENT, "pipelineJob": job}
    store.insert(name, {**body, "createPipelineJobRequest": request})


def _add_version(service: Service, *, is_first: bool) -> None:
    container = {"imageUri": "r.example/trainyard:src", "args": [f"--batch-size={1}"] * 20}
    labels = {"trainyard_state": "promoted", "trainyard_run": "run-0"}
    model = {"displayName": MODEL, "containerSpec": container, "labels": labels}
    target = {"modelId": MODEL} if is_first else {"parentModel": f"{PARENT}/models/{MODEL}"}
    _, upload = models.plan_upload(service, {"parent": PARENT, "model": model, **target})
    upload(threading.Event())
