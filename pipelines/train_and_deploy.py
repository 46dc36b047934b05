"""The pipeline: raw data to a served, versioned model.

1. fingerprint_input  names, sizes and digests of the raw data, part of the cache key of later steps
   prepare_examples   raw data to sharded TFRecords (Apache Beam)
2. plan_training      the cluster file to Vertex AI's worker pools
3. train              a custom job: one process or VM per replica
4. evaluate           metrics on the test split, and the verdict
5. if passed:
   check_model        a local prediction server must return the model's offline predictions
   find_version       is this model one of the registered versions?
   if it is new:
   upload_model       register a new version
   ensure_endpoint, deploy_model     deploy to a reused or new endpoint, without traffic yet
   predict            move the traffic and check predictions; move it back if the check fails
   promote            make the version the default and undeploy the previous one
   else serve_known   register no version; the endpoint keeps serving
6. teardown           always: delete what the run created except what it promoted; write
                      summary.json; report a run that did not succeed to a webhook
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
    """Train `workload` and, if its metrics pass the thresholds, serve it as a new version.

    Args:
        workload: What to train: a built-in name such as `mnist`, the path of a folder with a
            workload.py, its name in the image, or a package.module.
        cluster: Shape, machines, GPUs, spot and time limit, a JSON object (configs/clusters).
        train: Flags of `python -m trainer.task`, a JSON object.
        thresholds: Limits of the metrics that gate the deployment, a JSON object: a number, the
            least value (the largest where lower is better), or {"at_least": …, "at_most": …}.
        model_name: Display name of the model in the registry; an existing one gets a new version.
        endpoint_name: Display name of the endpoint; an existing one is reused.
        data_dir: Folder of raw data files; empty: they are downloaded.
        max_examples: Number of examples to use, over all splits; 0: all.
        trust_files: Use the files of data_dir without checking their SHA-256.
        prepare: Further options of prepare_examples (PrepareOptions), a JSON object.
        serving_machine: Machine type of the prediction server.
        keep_endpoint: Keep the promoted model deployed, even if the endpoint served nothing before.
        service_account: Account that the training job runs as; empty: Vertex AI's own.
        network: VPC network of the training job, projects/NUMBER/global/networks/NAME.
        tensorboard: Instance for the training job's logs, projects/P/locations/L/tensorboards/ID.
        on_failure_url: Web address that receives the summary of a run that did not succeed.
    """
    location = {"project": PROJECT_ID_PLACEHOLDER, "location": LOCATION_PLACEHOLDER}
    run = dsl.PIPELINE_JOB_NAME_PLACEHOLDER  # not a parameter: all runs of a schedule share those
    exit_task = teardown(
        run=run, keep_endpoint=keep_endpoint, on_failure_url=on_failure_url, **location
    )
    exit_task.set_display_name("teardown").set_caching_options(False)

    with dsl.ExitHandler(exit_task, name="run"):
        source = {
            "workload": workload,
            "data_dir": data_dir,
            "trust_files": trust_files,
            "prepare": prepare,
        }
        fingerprint = fingerprint_input(**source).set_caching_options(False)
        prepared = prepare_examples(
            **source,
            max_examples=max_examples,
            input_fingerprint=fingerprint.output,  # files can change while their names stay
        )
        examples = prepared.outputs["examples"]
        plan = plan_training(
            workload=workload, cluster=cluster, train=train, image=IMAGE, examples=examples
        )
        model = plan.outputs["model"]
        trained = CustomTrainingJobOp(
            display_name=f"train-{model_name}",  # workload may be a path
            worker_pool_specs=plan.outputs["worker_pool_specs"],
            base_output_directory=plan.outputs["base_output_directory"],
            timeout=plan.outputs["timeout"],
            restart_job_on_worker_restart=plan.outputs["restarts_whole_job"],
            strategy=plan.outputs["scheduling_strategy"],
            service_account=service_account,
            network=network,
            tensorboard=tensorboard,
            persistent_resource_id="",  # kfp.local cannot resolve GCPC's default placeholder
            **location,
        ).set_display_name("train")
        evaluated = evaluate(thresholds=thresholds, examples=examples, model=model).after(trained)
        golden = evaluated.outputs["golden"]

        with dsl.If(evaluated.outputs["verdict"] == "passed", name="if-passed"):
            checked = check_model(model=model, golden=golden)
            found = find_version(display_name=model_name, model=model, **location).after(checked)
            found.set_caching_options(False)

            with dsl.If(found.outputs["known_version"] == "", name="if-new"):
                uploaded = ModelUploadOp(
                    display_name=model_name,
                    parent_model=found.outputs["parent_model"],
                    unmanaged_container_model=model,
                    labels={STATE_LABEL: CANDIDATE, MODEL_LABEL: found.outputs["digest"]},
                    **location,
                ).set_display_name("upload-model")
                endpoint = ensure_endpoint(display_name=endpoint_name, run=run, **location)
                endpoint.after(uploaded)
                served = {
                    "model": uploaded.outputs["model"],
                    "endpoint": endpoint.outputs["endpoint"],
                }
                deployed = ModelDeployOp(  # without traffic, if another version has it
                    **served,
                    dedicated_resources_machine_type=serving_machine,
                    dedicated_resources_min_replica_count=1,
                    dedicated_resources_max_replica_count=1,
                ).set_display_name("deploy-model")
                predicted = predict(**served, golden=golden, **location).after(deployed)
                reasons = evaluated.outputs["reasons"]
                promoted = promote(**served, reasons=reasons, **location).after(predicted)
                for task in (uploaded, endpoint, deployed, predicted, promoted):
                    task.set_caching_options(False)

            with dsl.Else(name="if-known"):
                serve_known(
                    version=found.outputs["known_version"],
                    endpoint_name=endpoint_name,
                    machine=serving_machine,
                    keep_endpoint=keep_endpoint,
                    run=run,
                    golden=golden,
                    **location,
                ).set_caching_options(False)
