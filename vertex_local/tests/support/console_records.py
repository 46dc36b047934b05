"""Records and files as runs leave them, for the pages of the console."""

import json
from typing import Any

from vertex_local.api.routes import Call
from vertex_local.api.service import Service
from vertex_local.batch import resource as batch
from vertex_local.jobs import resource as jobs
from vertex_local.models import resource as models
from vertex_local.pipelines import resource as pipelines
from vertex_local.pipelines.journal import Journal, read, run_context

PARENT = "projects/p/locations/l"
BILLING_LABEL = "vertex-ai-pipelines-run-billing-id"
TIME = "2026-11-26T10:00:00Z"
BAD = {"outcome": "gate-failed", "tone": "bad", "why": "too <low>", "task": "train"}
BAD["next"] = "show it\nmore"
FACTS = {
    "outcome": "promoted",
    "tone": "good",
    "workload": "taxi",
    "reasons": "auc 0.95 is at least 0.94\nbetter than version 1",
    "metric": "auc",
    "value": 0.95,
    "gain": 0.01,
    "gain_low": 0.002,
    "gain_high": 0.018,
    "cost": 1.25,
    "model": "taxi@2",
    "report": "report.html",
    "commands": "hold taxi",
}
SPEC = {
    "pipelineInfo": {"name": "train"},
    "root": {
        "dag": {
            "tasks": {
                "prepare": {"componentRef": {"name": "a"}, "cachingOptions": {"enableCache": True}},
                "train": {"componentRef": {"name": "a"}, "dependentTasks": ["prepare"]},
                "condition": {"componentRef": {"name": "group"}, "dependentTasks": ["train"]},
                "end": {"componentRef": {"name": "a"}, "dependentTasks": ["condition", "train"]},
            }
        }
    },
    "components": {
        "a": {"executorLabel": "a"},
        "group": {"dag": {"tasks": {"upload": {"componentRef": {"name": "a"}}}}},
    },
}


def add_run(service: Service, run_id: str, *, state: str = "SUCCEEDED", **facts: Any) -> str:
    """Store an ended run whose pipeline writes a summary with `facts`, and a Metrics artifact."""
    name = f"{PARENT}/pipelineJobs/{run_id}"
    folder = pipelines.KIND.folder_of(service, name)
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks" / "train.log").write_text("first line\n10 %\r100 %\nlast <line>\n")
    (folder / "report.html").write_text("<h1>The report</h1>")
    journal = Journal(folder)
    metrics = {"auc": facts.get("value", 0.5), "latency": 3.0}
    _run_task(journal, 1, "prepare", state="SKIPPED")
    outputs = {
        "metrics": _artifact("metrics", "system.Metrics", str(folder / "metrics"), metrics),
        "page": _artifact("page", "system.HTML", str(folder / "report.html"), {}),
    }
    resources = {"resources": [{"resourceUri": f"http://x/v1/{PARENT}/customJobs/{run_id}"}]}
    _run_task(journal, 2, "train", outputs=outputs, values={"gcp_resources": json.dumps(resources)})
    if facts:
        uri = str(folder / "summary.json")
        _run_task(
            journal, 3, "end", outputs={"summary": _artifact("summary", "x", uri, dict(facts))}
        )
    train = json.dumps({"epochs": len(run_id), "seed": 1})
    body = {
        "name": name,
        "displayName": run_id,
        "state": f"PIPELINE_STATE_{state}",
        "createTime": TIME,
        "startTime": TIME,
        "endTime": "2026-11-26T10:01:30Z",
        "labels": {"team": "vision", "run": run_id, BILLING_LABEL: f"b-{run_id}"},
        "pipelineSpec": SPEC,
        "runtimeConfig": {"parameterValues": {"train": train, "empty": ""}},
        **run_context(read(folder)),
    }
    service.store.insert(name, body)
    return name


def _artifact(name: str, schema: str, uri: str, metadata: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "type": {"schemaTitle": schema}, "uri": uri, "metadata": metadata}]


def _run_task(
    journal: Journal,
    number: int,
    name: str,
    *,
    state: str = "SUCCEEDED",
    outputs: dict[str, Any] | None = None,
    values: dict[str, Any] | None = None,
) -> None:
    named = {"id": number, "name": name, "unique_name": name, "display_name": name}
    named["key"] = f"/{name}"
    journal.write("task_started", **named)
    journal.write(
        "task_ended",
        id=number,
        state=state,
        error="",
        note="",
        inputs={"rate": 0.5},
        outputs=values or {},
        input_artifacts={},
        output_artifacts=outputs or {},
    )


def add_job(service: Service, job_id: str) -> str:
    """Store an ended job with two replicas, their logs, and the progress of its training."""
    name = f"{PARENT}/customJobs/{job_id}"
    folder = jobs.KIND.folder_of(service, name)
    (folder / "output" / "logs").mkdir(parents=True)
    lines = [{"step": step, "loss": 1 / step, "step_ms": 4.0} for step in range(1, 9)]
    lines.append({"step": 8, "loss": 0.25, "split": "eval"})
    (folder / "output/logs/metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "workerpool0-0.log").write_text("chief <started>\n")
    (folder / "workerpool1-0.log").write_text("worker started\n")
    replica = {"state": "succeeded", "exit_code": 0, "restarts": 2, "started": TIME, "ended": TIME}
    usage = {"cpu_seconds": 7.5, "peak_memory_bytes": 512_000_000}
    replicas = {"chief/0": replica | usage, "worker/0": {**replica, "state": "failed"}}
    state = {"state": "succeeded", "message": "", "replicas": replicas, "warnings": ["a warning"]}
    (folder / "state.json").write_text(json.dumps(state))
    output = {"outputUriPrefix": str(folder / "output")}
    body = {
        "name": name,
        "displayName": "train-taxi",
        "state": "JOB_STATE_SUCCEEDED",
        "jobSpec": {"workerPoolSpecs": [], "baseOutputDirectory": output},
        "createTime": TIME,
        "startTime": TIME,
        "endTime": "2026-11-26T10:00:20Z",
    }
    service.store.insert(name, body)
    return name


def add_study(service: Service) -> str:
    """Store a tuning job that minimizes, with three trials."""
    name = f"{PARENT}/hyperparameterTuningJobs/5"
    trials = [_trial("1", 0.5), _trial("2", 0.2), _trial("3", None)]
    metrics = [{"metricId": "loss", "goal": "MINIMIZE"}]
    spec = {"metrics": metrics, "parameters": [{"parameterId": "rate"}]}
    times = {"createTime": TIME, "startTime": TIME}
    body = {"name": name, "displayName": "tune-taxi", "state": "JOB_STATE_RUNNING", **times}
    service.store.insert(name, {**body, "studySpec": spec, "trials": trials, "maxTrialCount": 4})
    return name


def add_batch(service: Service, model: str) -> str:
    """Store a batch prediction that has ended, with the log of its prediction server."""
    name = f"{PARENT}/batchPredictionJobs/6"
    folder = batch.KIND.folder_of(service, name)
    folder.mkdir(parents=True)
    (folder / "workerpool0-0.log").write_text("server <started>\n")
    body = {
        "name": name,
        "displayName": "predict-taxi",
        "state": "JOB_STATE_SUCCEEDED",
        "model": model,
        "inputConfig": {"instancesFormat": "csv", "gcsSource": {"uris": ["gs://b/rows-*.csv"]}},
        "outputInfo": {"gcsOutputDirectory": "gs://b/predicted"},
        "completionStats": {"successfulCount": "1200", "failedCount": "3"},
        "createTime": TIME,
    }
    service.store.insert(name, body)
    return name


def _trial(number: str, value: float | None) -> dict[str, Any]:
    trial: dict[str, Any] = {"id": number, "state": "ACTIVE", "startTime": TIME}
    if value is None:
        trial |= {"state": "INFEASIBLE", "infeasibleReason": "it reported no number " * 20}
    trial["parameters"] = [{"parameterId": "rate", "value": 0.001 * int(number)}]
    if value is not None:
        first, last = (
            {"stepCount": step, "metrics": [{"metricId": "loss", "value": loss}]}
            for step, loss in (("5", 2 * value), ("9", value))
        )
        trial |= {"state": "SUCCEEDED", "finalMeasurement": last, "endTime": TIME}
        trial["measurements"] = [first, last]
    return trial


def add_model(service: Service, *, run_id: str) -> str:
    """Upload a model whose second version is of a run."""
    folder = service.root / "artifacts"
    folder.mkdir()
    (folder / "golden.json").write_text(json.dumps({"instances": [{"fare": 3, "miles": [1, 2]}]}))
    labels = {"acme_state": "promoted", BILLING_LABEL: f"b-{run_id}"}
    labels["acme_default_20261126t113139123z"] = "promoted_night"
    held, odd = (f"[{time} held by ann@desk] <audit>" for time in (TIME, "9Z"))
    description = f"auc 0.95 is at least 0.94\n{held}\n{odd}"
    model = {"displayName": "taxi", "artifactUri": str(folder)}
    model["containerSpec"] = {"imageUri": "any"}
    second = {**model, "versionAliases": ["default"], "labels": labels}
    second["versionDescription"] = description
    name = f"{PARENT}/models/taxi"
    for request in ({"model": model, "modelId": "taxi"}, {"model": second, "parentModel": name}):
        place = {"project": "p", "location": "l"}
        assert "error" not in models.upload(service, Call(place, {}, request))
    evaluation = {
        "name": f"{name}@2/evaluations/1",
        "displayName": "test split",
        "createTime": TIME,
    }
    service.store.insert(evaluation["name"], {**evaluation, "metrics": {"auRoc": 0.95}})
    return name


def add_endpoint(service: Service, model: str) -> str:
    """Store an endpoint that has version 2 of a model deployed; no server runs."""
    name = f"{PARENT}/endpoints/9"
    deployed = {"id": "11", "displayName": "taxi", "model": model, "modelVersionId": "2"}
    body = {"name": name, "displayName": "taxi-endpoint", "createTime": TIME, "labels": {"a": "b"}}
    split = {"deployedModels": [deployed], "trafficSplit": {"11": 100}}
    service.store.insert(name, body | split)
    return name


def add_schedule(service: Service, *, state: str = "ACTIVE") -> str:
    """Store a schedule of every day at 03:00, whose runs have a label."""
    name = f"{PARENT}/schedules/13"
    job = {"labels": {"team": "vision"}, "pipelineSpec": SPEC}
    body = {
        "name": name,
        "displayName": "nightly",
        "cron": "0 3 * * *",
        "state": state,
        "startedRunCount": "0",
        "createTime": TIME,
        "updateTime": TIME,
        "startTime": TIME,
        "maxConcurrentRunCount": "1",
        "nextRunTime": "2099-01-01T03:00:00Z",
        "createPipelineJobRequest": {"parent": PARENT, "pipelineJob": job},
    }
    service.store.insert(name, body)
    return name
