"""The pipeline: raw data to a served, versioned model.

1. start             the default version, the files of the run's date; may end here: nothing new
   prepare_examples  raw data to sharded TFRecords (Apache Beam)
2. plan_training     worker pools; drift since the default version; may end here, too
   train             a custom job: one process or VM per replica
3. evaluate          metrics beside the default version's, a check of the server, the verdict
4. if it passed and is new (or is kept as a challenger, or to wait for an approval):
   upload_model, record_version   register a version with its evaluation
   deploy_model      deploy to a reused or new endpoint, without traffic yet
   release_model     replay requests, move the traffic, make it the default; or move it back
   if it passed and is a version already: serve_known   that one serves, and is the default again
5. teardown          always: delete what the run created except what it promoted; summary.json
"""

import copy
import dataclasses
from typing import Any

from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from google_cloud_pipeline_components.v1.endpoint import ModelDeployOp
from google_cloud_pipeline_components.v1.model import ModelUploadOp
from kfp import dsl

from components import IMAGE
from components.evaluate.component import evaluate
from components.plan_training.component import plan_training
from components.prepare_examples.component import prepare_examples
from components.release.component import record_version, release_model
from components.shared.vertex.labels import CANDIDATE, MODEL_LABEL, STATE_LABEL
from components.start.component import start
from components.start.trigger import NOTHING_NEW, TRAIN
from pipelines.dags.parts import LOCATION, RETRY, RUN, torn_down


def named(component: Any, name: str) -> Any:
    """Return a component whose task, folder and log have another name."""
    renamed = copy.copy(component)
    renamed.component_spec = dataclasses.replace(component.component_spec, name=name)
    return renamed


train_model = named(CustomTrainingJobOp, "train")
upload_model = named(ModelUploadOp, "upload-model")
deploy_model = named(ModelDeployOp, "deploy-model")
serve_known = named(release_model, "serve-known")


@dsl.pipeline(
    name="train-and-deploy",
    description="Raw data to a served, versioned TensorFlow model, torn down at the end.",
)
def train_and_deploy(
    workload: str,
    cluster: str,
    train: str,
    thresholds: str,
    model_name: str,
    endpoint_name: str,
    gate: str = "{}",
    data_dir: str = "",
    max_examples: int = 0,
    trust_files: bool = False,
    prepare: str = "{}",
    trigger: str = "{}",
    serving: str = "{}",
    keep_endpoint: bool = False,
    service_account: str = "",
    network: str = "",
    tensorboard: str = "",
    on_failure_url: str = "",
    report_success: bool = False,
    release: str = "{}",
):
    """Train `workload` and, if it passes the gate, serve it as a new version.

    Args:
        workload: What to train: a built-in name such as `mnist`, the path of a folder with a
            workload.py, its name in the image, or a package.module.
        cluster: Shape, machines, GPUs, spot and time limit, a JSON object (configs/clusters).
        train: Flags of `python -m trainer.task`, a JSON object.
        thresholds: Limits of the metrics that gate the deployment, a JSON object: a number, the
            least value (the largest where lower is better), or {"at_least": …, "at_most": …}.
        model_name: Display name of the model in the registry; an existing one gets a new version.
        endpoint_name: Display name of the endpoint; an existing one is reused.
        gate: Further conditions of the deployment (GateOptions), a JSON object.
        data_dir: Folder of raw data files; empty: they are downloaded.
        max_examples: Number of examples to use, over all splits; 0: all.
        trust_files: Use the files of data_dir without checking their SHA-256.
        prepare: Further options of prepare_examples (PrepareOptions), a JSON object.
        trigger: Conditions of training besides the clock (Trigger), a JSON object.
        serving: Machines of the endpoint (ServingOptions), a JSON object.
        keep_endpoint: Keep the promoted model deployed, even if the endpoint served nothing before.
        service_account: Account that the training job runs as; empty: Vertex AI's own.
        network: VPC network of the training job, projects/NUMBER/global/networks/NAME.
        tensorboard: Instance for the training job's logs, projects/P/locations/L/tensorboards/ID.
        on_failure_url: Web address that receives the summary of a run that did not succeed.
        report_success: Send it the summary of every run.
        release: Approval, replay, canary and what stays deployed (ReleaseOptions), a JSON object.
    """
    source = {"workload": workload, "data_dir": data_dir, "trust_files": trust_files}
    judged_by = {"thresholds": thresholds, "gate": gate}

    with torn_down(
        keep_endpoint=keep_endpoint, on_failure_url=on_failure_url, report_success=report_success
    ):
        started = start(
            run=RUN,
            model_name=model_name,
            prepare=prepare,
            trigger=trigger,
            schedule_time=dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER,
            create_time=dsl.PIPELINE_JOB_CREATE_TIME_UTC_PLACEHOLDER,
            **source,
            **LOCATION,
        ).set_caching_options(False)

        with dsl.If(started.outputs["verdict"] != NOTHING_NEW, name="if-new-data"):
            prepared = prepare_examples(
                prepare=started.outputs["prepare"],  # the files and days of this run
                max_examples=max_examples,
                input_fingerprint=started.outputs["fingerprint"],  # changes with their content
                **source,
            )
            examples = prepared.outputs["examples"]
            plan = plan_training(
                workload=workload,
                cluster=cluster,
                train=train,
                image=IMAGE,
                examples=examples,
                comparison=started.outputs["comparison"],
            )
            model = plan.outputs["model"]

            with dsl.If(plan.outputs["verdict"] == TRAIN, name="if-train"):
                trained = train_model(
                    display_name=f"train-{model_name}",  # workload may be a path
                    worker_pool_specs=plan.outputs["worker_pool_specs"],
                    base_output_directory=plan.outputs["base_output_directory"],
                    timeout=plan.outputs["timeout"],
                    restart_job_on_worker_restart=plan.outputs["restarts_whole_job"],
                    strategy=plan.outputs["scheduling_strategy"],
                    persistent_resource_id=plan.outputs["persistent_resource"],
                    service_account=service_account,
                    network=network,
                    tensorboard=tensorboard,
                    **LOCATION,
                )
                evaluated = evaluate(
                    model_name=model_name,
                    workload=workload,
                    train=train,
                    image=IMAGE,
                    examples=examples,
                    model=model,
                    release=release,
                    **judged_by,
                    **LOCATION,
                )
                evaluated.after(trained).set_caching_options(False)
                release_inputs = {
                    "run": RUN,
                    "endpoint_name": endpoint_name,
                    "serving": serving,
                    "keep_endpoint": keep_endpoint,
                    "model": model,
                    "examples": examples,
                    "golden": evaluated.outputs["golden"],
                    "evaluation": evaluated.outputs["evaluation"],
                    "champion_version": evaluated.outputs["champion_version"],
                    "reasons": evaluated.outputs["reasons"],
                    "release": release,
                    **judged_by,
                    **LOCATION,
                }

                with dsl.If(evaluated.outputs["state"] != "", name="if-new"):
                    uploaded = upload_model(
                        display_name=model_name,
                        parent_model=evaluated.outputs["parent_model"],
                        unmanaged_container_model=model,
                        labels={
                            STATE_LABEL: evaluated.outputs["state"],
                            MODEL_LABEL: evaluated.outputs["digest"],
                        },
                        **LOCATION,
                    ).set_caching_options(False)
                    recorded = record_version(
                        run=RUN,
                        endpoint_name=endpoint_name,
                        state=evaluated.outputs["state"],
                        model=uploaded.outputs["model"],
                        evaluation=evaluated.outputs["evaluation"],
                        verdict=evaluated.outputs["verdict"],
                        reasons=evaluated.outputs["reasons"],
                        serving=serving,
                        **LOCATION,
                    ).set_caching_options(False)

                    with dsl.If(evaluated.outputs["state"] == CANDIDATE, name="if-passed"):
                        deployed = deploy_model(  # without traffic, if another version has it
                            model=recorded.outputs["version"],
                            endpoint=recorded.outputs["endpoint"],
                            dedicated_resources_machine_type=recorded.outputs["machine"],
                            dedicated_resources_accelerator_type=recorded.outputs["gpu"],
                            dedicated_resources_accelerator_count=recorded.outputs["gpus"],
                            dedicated_resources_min_replica_count=recorded.outputs["least"],
                            dedicated_resources_max_replica_count=recorded.outputs["most"],
                        ).set_caching_options(False)
                        released = release_model(
                            version=recorded.outputs["Output"], is_known=False, **release_inputs
                        )
                        released.after(deployed).set_caching_options(False)

                with dsl.If(evaluated.outputs["known_version"] != "", name="if-known"):
                    serve_known(
                        version=evaluated.outputs["known_version"], is_known=True, **release_inputs
                    ).set_caching_options(False)

        for step in (started, prepared, plan, evaluated, recorded):
            step.set_retry(**RETRY)
