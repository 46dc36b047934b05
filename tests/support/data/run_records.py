"""Pipeline runs as Vertex AI returns them, for tests without a service."""

from components.shared.vertex.labels import SCHEDULE_LABEL

NAME = "projects/p/locations/l/pipelineJobs/m-1"
VERSION = "projects/p/locations/l/models/5@3"
STEPS = ("start", "evaluate", "release-model", "serve-known", "teardown")


def pipeline(*names: str) -> dict:
    """Return a specification with these tasks in sequence."""
    tasks = {
        name: {"componentRef": {"name": "comp"}, "dependentTasks": list(names[:place])}
        for place, name in enumerate(names)
    }
    return {
        "components": {"comp": {"executorLabel": "e"}},
        "deploymentSpec": {
            "executors": {"e": {"container": {"image": "r/trainyard:src-0123456789ab"}}}
        },
        "root": {
            "dag": {"tasks": tasks},
            "inputDefinitions": {
                "parameters": {
                    "workload": {"parameterType": "STRING"},
                    "model_name": {"parameterType": "STRING", "defaultValue": "mnist"},
                    "max_examples": {"parameterType": "NUMBER_INTEGER", "defaultValue": 0.0},
                }
            },
        },
    }


def task(name: str, *, state: str = "SUCCEEDED", metrics: dict | None = None, **outputs) -> dict:
    """Return the details of a task."""
    detail = {
        "taskName": name,
        "state": state,
        "startTime": "2026-11-21T10:00:00Z",
        "endTime": "2026-11-21T10:00:02.500000Z",
        "execution": {"metadata": {f"output:{key}": value for key, value in outputs.items()}},
    }
    if metrics:
        found = {"artifacts": [{"uri": "/m", "metadata": metrics}]}
        detail["outputs"] = {"metrics": found, "latency": found}
    return detail


def job(*tasks: dict, state: str = "SUCCEEDED", error: str = "", **parameters) -> dict:
    """Return a run with these tasks."""
    return {
        "name": NAME,
        "state": f"PIPELINE_STATE_{state}",
        "createTime": "2026-11-21T10:00:00Z",
        "endTime": "2026-11-21T10:01:00.250000Z",
        "labels": {SCHEDULE_LABEL: "nightly"},
        "pipelineSpec": pipeline(*STEPS),
        "runtimeConfig": {"parameterValues": {"workload": "mnist", **parameters}},
        "jobDetail": {"taskDetails": list(tasks)},
        **({"error": {"message": error}} if error else {}),
    }


PASSED = task("evaluate", verdict="passed", reasons="accuracy is enough")
FAILED = task("evaluate", verdict="failed", reasons="accuracy 0.1 is below 0.9")
SETTINGS = {"train": '{"epochs": 5, "batch_size": 128}', "thresholds": '{"accuracy": 0.985}'}
LONG_NAME = "train-and-deploy-mnist-1234567890123456789-20261121030000"


def passed(accuracy: float) -> dict:
    """Return the task of an evaluation with the verdict `passed`."""
    return task("evaluate", metrics={"accuracy": accuracy, "num_examples": 10}, verdict="passed")


def promoted(accuracy: float = 0.9871, **parameters: str) -> dict:
    """Return a run that has promoted a version."""
    found = job(
        task("start", fingerprint="sha256:" + "a" * 64),
        passed(accuracy),
        task("release-model", Output=VERSION),
        **(SETTINGS | parameters),
    )
    return {**found, "name": f"projects/p/locations/l/pipelineJobs/{LONG_NAME}"}
