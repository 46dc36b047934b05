"""The project's requests to Vertex AI, made with Google's SDK: the source of the goldens.

`python tests/pipelines/test_requests.py` records them anew.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.servers.recorder import PARENT, Recorder

PACKAGE = {
    "pipelineInfo": {"name": "tiny"},
    "root": {
        "dag": {"tasks": {"a": {"componentRef": {"name": "comp-a"}, "cachingOptions": {}}}},
        "inputDefinitions": {
            "parameters": {
                "project": {"parameterType": "STRING"},
                "count": {"parameterType": "NUMBER_INTEGER", "defaultValue": 1},
                "share": {"parameterType": "NUMBER_DOUBLE", "defaultValue": 0.5},
                "is_dry": {"parameterType": "BOOLEAN", "defaultValue": False},
                "names": {"parameterType": "LIST", "isOptional": True},
            }
        },
    },
    "components": {"comp-a": {"executorLabel": "exec-a"}},
    "deploymentSpec": {"executors": {"exec-a": {"container": {"image": "r.example/i:1"}}}},
    "schemaVersion": "2.1.0",
    "sdkVersion": "kfp-2.17.0",
}
VALUES = {"project": "demo", "count": 3, "share": 0.25, "is_dry": True, "names": ["a", "b"]}
ROOT = "gs://bucket/runs"
LABELS = {"team": "vision", "trainyard_run": "run-1"}
ACCOUNT = "trainer@demo.iam.gserviceaccount.com"
ALIASES = ["default"]
INSTANCES = [[0.5, 1.0]]
SCHEDULE = {
    "displayName": "nightly",
    "cron": "TZ=Europe/Berlin 0 3 * * *",
    "startTime": "2026-02-01T00:00:00Z",
    "maxRunCount": "5",
    "maxConcurrentRunCount": "1",
    "maxConcurrentActiveRunCount": "1",
    "allowQueueing": True,
    "createPipelineJobRequest": {
        "parent": PARENT,
        "pipelineJob": {
            "displayName": "nightly",
            "pipelineSpec": PACKAGE,
            "runtimeConfig": {"gcsOutputDirectory": ROOT, "parameterValues": VALUES},
            "labels": {"team": "vision"},
        },
    },
}
UPDATED = {name: value for name, value in SCHEDULE.items() if name != "displayName"}


def record(server: Recorder, folder: Path, custom_job: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the requests of each operation by its name."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import aiplatform, aiplatform_v1

    url = f"http://{server.host}"
    aiplatform.init(
        project="demo",
        location="us-central1",
        api_endpoint=url,
        api_transport="rest",
        credentials=AnonymousCredentials(),
    )

    def client(kind: str) -> Any:
        return getattr(aiplatform_v1, f"{kind}ServiceClient")(
            transport="rest",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": url},
        )

    found: dict[str, list[Any]] = {}

    def done(name: str, _: Any = None) -> None:
        found[name] = server.taken()

    _pipelines(aiplatform, folder, done)
    pipelines, jobs = client("Pipeline"), client("Job")
    models, endpoints = client("Model"), client("Endpoint")
    run, job = f"{PARENT}/pipelineJobs/run-1", f"{PARENT}/customJobs/7"
    model, endpoint = f"{PARENT}/models/5", f"{PARENT}/endpoints/9"
    newest = {"parent": PARENT, "order_by": "create_time desc", "read_mask": {"paths": ["name"]}}
    done("runs_list", list(pipelines.list_pipeline_jobs(request=newest)))
    done("run_get", pipelines.get_pipeline_job(name=run))
    done("run_cancel", pipelines.cancel_pipeline_job(name=run))
    done("run_delete", pipelines.delete_pipeline_job(name=run).result(30))
    done("job_create", jobs.create_custom_job(parent=PARENT, custom_job=_proto(custom_job)))
    done("jobs_list", list(jobs.list_custom_jobs(parent=PARENT)))
    labelled = {"parent": PARENT, "filter": 'labels.trainyard_run="run-1"'}
    done("jobs_of_a_run", list(jobs.list_custom_jobs(request=labelled)))
    done("job_get", jobs.get_custom_job(name=job))
    done("job_cancel", jobs.cancel_custom_job(name=job))
    done("job_delete", jobs.delete_custom_job(name=job).result(30))
    _schedules(client("Schedule"), done)
    named = {"parent": PARENT, "filter": 'display_name="mnist"'}
    done("models_list", list(models.list_models(parent=PARENT)))
    done("models_named", list(models.list_models(request=named)))
    done("model_get", models.get_model(name=f"{model}@2"))
    done("model_versions", list(models.list_model_versions(name=model)))
    done("model_alias", models.merge_version_aliases(name=f"{model}@2", version_aliases=ALIASES))
    done("model_delete", models.delete_model(name=model).result(30))
    done("version_delete", models.delete_model_version(name=f"{model}@2").result(30))
    labelled_endpoint = {"display_name": "mnist", "labels": {"trainyard_run": "run-1"}}
    done("endpoints_list", list(endpoints.list_endpoints(parent=PARENT)))
    done("endpoints_named", list(endpoints.list_endpoints(request=named)))
    created = endpoints.create_endpoint(parent=PARENT, endpoint=labelled_endpoint)
    done("endpoint_create", created.result(30))
    done("endpoint_get", endpoints.get_endpoint(name=endpoint))
    done("scale", endpoints.mutate_deployed_model(endpoint=endpoint, **_scaled()))
    undeployed = endpoints.undeploy_model(endpoint=endpoint, deployed_model_id="3")
    done("undeploy", undeployed.result(30))
    done("endpoint_delete", endpoints.delete_endpoint(name=endpoint).result(30))
    done("predict", client("Prediction").predict(endpoint=endpoint, instances=INSTANCES))
    _logs(url, done)
    return found


def _scaled() -> dict[str, Any]:
    """Return a change of the machines of a deployed model."""
    metric = "aiplatform.googleapis.com/prediction/online/cpu/utilization"
    wanted = {
        "max_replica_count": 5,
        "autoscaling_metric_specs": [{"metric_name": metric, "target": 70}],
    }
    mask = {"paths": [f"dedicated_resources.{field}" for field in wanted]}
    return {"deployed_model": {"id": "3", "dedicated_resources": wanted}, "update_mask": mask}


def _logs(url: str, done: Any) -> None:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import logging

    client = logging.Client(
        project="demo",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": url},
        _use_grpc=False,
    )
    # `client.list_entries` would add a filter for the last day.
    read = partial(client.logging_api.list_entries, ["projects/demo"])
    job = 'resource.type="ml_job" AND resource.labels.job_id="7"'
    worker = f'{job} AND resource.labels.task_name="workerpool1-1"'
    oldest_first = {"order_by": logging.ASCENDING, "page_size": 1000}
    done("job_log", list(read(filter_=job, **oldest_first)))
    done("replica_log", list(read(filter_=worker, **oldest_first)))
    newest = {"order_by": logging.DESCENDING, "page_size": 1}
    done("last_line", list(read(filter_=worker, **newest)))


def _schedules(schedules: Any, done: Any) -> None:
    from google.cloud.aiplatform_v1.types import Schedule
    from google.protobuf import field_mask_pb2

    name, body = f"{PARENT}/schedules/4", Schedule.from_json(json.dumps(SCHEDULE))
    changed = Schedule.from_json(json.dumps({"name": name, **UPDATED}))
    mask = field_mask_pb2.FieldMask()
    mask.FromJsonString(",".join(UPDATED))
    done("schedule_create", schedules.create_schedule(parent=PARENT, schedule=body))
    done("schedules_list", list(schedules.list_schedules(parent=PARENT)))
    done("schedule_update", schedules.update_schedule(schedule=changed, update_mask=mask))
    done("schedule_pause", schedules.pause_schedule(name=name))
    done("schedule_resume", schedules.resume_schedule(name=name, catch_up=True))
    done("schedule_delete", schedules.delete_schedule(name=name).result(30))


def _pipelines(aiplatform: Any, folder: Path, done: Any) -> None:
    import google.cloud.aiplatform.utils.gcs_utils as buckets

    # The SDK looks for the bucket first, with Cloud Storage's API, which is not recorded here.
    buckets.create_gcs_bucket_for_pipeline_artifacts_if_it_does_not_exist = lambda **_: None
    template = folder / "tiny.yaml"
    template.write_text(json.dumps(PACKAGE))
    for name, options, account in (
        ("submit", {}, None),
        ("submit_anew", {"enable_caching": False}, ACCOUNT),
    ):
        job = aiplatform.PipelineJob(
            display_name="run-1",
            template_path=str(template),
            job_id="run-1",
            pipeline_root=ROOT,
            parameter_values=VALUES,
            labels=LABELS,
            **options,
        )
        job.submit(service_account=account)
        done(name)


def _proto(body: dict[str, Any]) -> Any:
    from google.cloud.aiplatform_v1.types import CustomJob

    return CustomJob.from_json(json.dumps(body))
