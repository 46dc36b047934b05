"""The pipeline: raw data to a served, versioned model.

1. fingerprint_input  names, sizes and digests of the raw data, which key the cache of the rest
   prepare_examples   raw data to sharded TFRecords (Apache Beam)
2. plan_training      the cluster's shape to Vertex AI's worker pools
3. train              a custom job: one process or VM per replica
4. evaluate           metrics on the test split, and the verdict
5. if passed:
   check_model        its server, started beside the step, answers as the model did offline
   find_version       the model's versions: is this one among them?
   if it is new:
   upload_model       a new version of the model
   ensure_endpoint, deploy_model     on an endpoint that is reused, without traffic yet
   predict            the traffic moves, and the endpoint is asked; it moves back if that fails
   promote            the version becomes the default, and the one before is undeployed
   else serve_known   no version is registered; the endpoint goes on serving
6. teardown           always: what the run made, except what it promoted; writes summary.json, and
                      tells a webhook of a run that did not end well
"""

from google_cloud_pipeline_components._placeholders import (
    LOCATION_PLACEHOLDER,
    PROJECT_ID_PLACEHOLDER,
)
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from google_cloud_pipeline_components.v1.endpoint import ModelDeployOp
from google_cloud_pipeline_components.v1.model import ModelUploadOp
from kfp import dsl

from components.check_model.component import check_model
from components.endpoint.component import ensure_endpoint
from components.evaluate.component import evaluate
from components.image import IMAGE
from components.labels import CANDIDATE, MODEL_LABEL, STATE_LABEL
from components.model_version.component import find_version
from components.plan_training.component import plan_training
from components.predict.component import predict
from components.prepare_examples.component import fingerprint_input, prepare_examples
from components.release.component import promote, serve_known
from components.teardown.component import teardown


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
    data_dir: str = "",
    max_examples: int = 0,
    trust_files: bool = False,
    prepare: str = "{}",
    serving_machine: str = "n1-standard-4",
    keep_endpoint: bool = False,
    service_account: str = "",
    network: str = "",
    tensorboard: str = "",
    on_failure_url: str = "",
):
    """Trains `workload` and, if its metrics pass the thresholds, serves it as a new version.

    Args:
        workload: What to train, for example `mnist`.
        cluster: Shape, machines, GPUs, spot and time limit, a JSON object (configs/clusters).
        train: Flags of `python -m trainer.task`, a JSON object.
        thresholds: Least value for each metric that gates the deployment, a JSON object.
        model_name: Display name of the model in the registry; an existing one gets a new version.
        endpoint_name: Display name of the endpoint; an existing one is reused.
        data_dir: Folder of raw data files; empty: they are downloaded.
        max_examples: Take only this many examples, over all splits; 0: all.
        trust_files: Take the files of data_dir without a check of their SHA-256.
        prepare: Further options of prepare_examples (PrepareOptions), a JSON object.
        serving_machine: Machine type of the prediction server.
        keep_endpoint: Leave the promoted model deployed; so it is anyway where one was before.
        service_account: Account that the training job runs as; empty: Vertex AI's own.
        network: VPC network of the training job, projects/NUMBER/global/networks/NAME.
        tensorboard: Instance for the training job's logs, projects/P/locations/L/tensorboards/ID.
        on_failure_url: Web address that is sent the summary of a run that did not end well.
    """
    where = {"project": PROJECT_ID_PLACEHOLDER, "location": LOCATION_PLACEHOLDER}  # the run's own
    run = dsl.PIPELINE_JOB_NAME_PLACEHOLDER  # a schedule starts each run with the same parameters
    exit_task = teardown(
        run=run, keep_endpoint=keep_endpoint, on_failure_url=on_failure_url, **where
    )
    exit_task.set_display_name("teardown").set_caching_options(False)

    with dsl.ExitHandler(exit_task, name="run"):
        found = fingerprint_input(
            workload=workload, data_dir=data_dir, trust_files=trust_files, prepare=prepare
        ).set_caching_options(False)
        prepared = prepare_examples(
            workload=workload,
            data_dir=data_dir,
            max_examples=max_examples,
            trust_files=trust_files,
            prepare=prepare,
            input_fingerprint=found.output,  # the files can change while their names stay
        )
        plan = plan_training(
            workload=workload,
            cluster=cluster,
            train=train,
            image=IMAGE,
            examples=prepared.outputs["examples"],
        )
        trained = CustomTrainingJobOp(
            display_name=f"train-{workload}",
            worker_pool_specs=plan.outputs["worker_pool_specs"],
            base_output_directory=plan.outputs["base_output_directory"],
            timeout=plan.outputs["timeout"],
            restart_job_on_worker_restart=plan.outputs["restarts_whole_job"],
            strategy=plan.outputs["scheduling_strategy"],
            service_account=service_account,
            network=network,
            tensorboard=tensorboard,
            persistent_resource_id="",  # kfp.local cannot resolve GCPC's default placeholder
            **where,
        ).set_display_name("train")
        evaluated = evaluate(
            workload=workload,
            thresholds=thresholds,
            examples=prepared.outputs["examples"],
            model=plan.outputs["model"],
        ).after(trained)

        with dsl.If(evaluated.outputs["verdict"] == "passed", name="if-passed"):
            checked = check_model(
                workload=workload,
                model=plan.outputs["model"],
                golden=evaluated.outputs["golden"],
            )
            found = find_version(
                display_name=model_name, model=plan.outputs["model"], **where
            ).after(checked)
            found.set_caching_options(False)

            with dsl.If(found.outputs["known_version"] == "", name="if-new"):
                uploaded = ModelUploadOp(
                    display_name=model_name,
                    parent_model=found.outputs["parent_model"],
                    unmanaged_container_model=plan.outputs["model"],
                    labels={STATE_LABEL: CANDIDATE, MODEL_LABEL: found.outputs["digest"]},
                    **where,
                ).set_display_name("upload-model")
                endpoint = ensure_endpoint(display_name=endpoint_name, run=run, **where)
                endpoint.after(uploaded)
                deployed = ModelDeployOp(  # without traffic, where another version has it
                    model=uploaded.outputs["model"],
                    endpoint=endpoint.outputs["endpoint"],
                    dedicated_resources_machine_type=serving_machine,
                    dedicated_resources_min_replica_count=1,
                    dedicated_resources_max_replica_count=1,
                ).set_display_name("deploy-model")
                asked = predict(
                    model=uploaded.outputs["model"],
                    endpoint=endpoint.outputs["endpoint"],
                    golden=evaluated.outputs["golden"],
                    **where,
                ).after(deployed)
                promoted = promote(
                    model=uploaded.outputs["model"], endpoint=endpoint.outputs["endpoint"], **where
                ).after(asked)
                for task in (uploaded, endpoint, deployed, asked, promoted):
                    task.set_caching_options(False)

            with dsl.Else(name="if-known"):
                serve_known(
                    version=found.outputs["known_version"],
                    endpoint_name=endpoint_name,
                    machine=serving_machine,
                    keep_endpoint=keep_endpoint,
                    run=run,
                    golden=evaluated.outputs["golden"],
                    **where,
                ).set_caching_options(False)
