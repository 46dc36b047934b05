"""The pipeline: raw data to a served, versioned model.

1. find_champion      the default version of the model, which data and model are compared to
   fingerprint_input  the files of the run's date; their names, sizes and digests are part of the
                      cache key of later steps; a run with a trigger may end here: nothing new
   prepare_examples   raw data to sharded TFRecords (Apache Beam)
   compare_data       drift since the champion's data; the run may end here, too
2. plan_training      the cluster file to Vertex AI's worker pools
3. train              a custom job: one process or VM per replica
4. find_version       is this model the default version?
   evaluate           metrics on the test split, beside the default version's, and the verdict; a
                      known model is compared with the same version as before
5. if passed:
   check_model        a local prediction server must return the model's offline predictions, refuse
                      bad requests and, if a limit is set, be fast enough
   if it is new:
   upload_model, record_evaluation   register a new version, with its evaluation
   ensure_endpoint, deploy_model     deploy to a reused or new endpoint, without traffic yet
   release_model      replay logged requests, move the traffic, at once or a share first, check
                      predictions, and make the version the default; move the traffic back if
                      anything fails, or if another default is better by now
   else serve_known   register no version; the endpoint keeps serving
   if not passed, and new models that do not pass are to be kept:
   keep_challenger    register a version with the alias `challenger`
6. teardown           always: delete what the run created except what it promoted; write
                      summary.json; report a run that did not succeed to a webhook
"""

from typing import Any

from google_cloud_pipeline_components._placeholders import (
    LOCATION_PLACEHOLDER,
    PROJECT_ID_PLACEHOLDER,
)
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from google_cloud_pipeline_components.v1.endpoint import ModelDeployOp
from google_cloud_pipeline_components.v1.model import ModelUploadOp
from kfp import dsl

from components import IMAGE
from components.endpoint.component import ensure_endpoint
from components.evaluate.component import evaluate
from components.model_version.component import find_champion, find_version, record_evaluation
from components.new_data.component import compare_data, fingerprint_input
from components.new_data.trigger import NOTHING_NEW, TRAIN
from components.plan_training.component import plan_training
from components.prepare_examples.component import prepare_examples
from components.release.check_model.component import check_model
from components.release.component import release_model, serve_known
from components.shared.vertex.labels import CANDIDATE, CHALLENGER, MODEL_LABEL, STATE_LABEL
from components.teardown.component import teardown

LOCATION = {"project": PROJECT_ID_PLACEHOLDER, "location": LOCATION_PLACEHOLDER}
RUN = dsl.PIPELINE_JOB_NAME_PLACEHOLDER  # not a parameter: all runs of a schedule share those
# Of the steps that can be repeated, for one whose machine was lost. A launcher that was lost may
# have begun an upload or a deployment, which would be made twice; `release_model` and `serve_known`
# move traffic. Vertex AI itself restarts the launcher of a training job.
RETRY = {"num_retries": 1, "backoff_duration": "2s"}


def upload_version(model: Any, found: Any, evaluated: Any, *, name: str, state: str) -> Any:
    """Add tasks that upload a model as a version and record its evaluation; return both.

    The second one's output `version` is the version, whose model another run may have created.
    """
    uploaded = ModelUploadOp(
        display_name=name,
        parent_model=found.outputs["parent_model"],
        unmanaged_container_model=model,
        labels={STATE_LABEL: state, MODEL_LABEL: found.outputs["digest"]},
        **({"version_aliases": [state]} if state == CHALLENGER else {}),
        **LOCATION,
    )
    recorded = record_evaluation(
        model=uploaded.outputs["model"],
        evaluation=evaluated.outputs["evaluation"],
        verdict=evaluated.outputs["verdict"],
        reasons=evaluated.outputs["reasons"],
        **LOCATION,
    )
    recorded.set_caching_options(False).set_retry(**RETRY)
    return uploaded.set_caching_options(False), recorded


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
    serving_machine: str = "n1-standard-4",
    keep_endpoint: bool = False,
    service_account: str = "",
    network: str = "",
    tensorboard: str = "",
    on_failure_url: str = "",
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
        serving_machine: Machine type of the prediction server.
        keep_endpoint: Keep the promoted model deployed, even if the endpoint served nothing before.
        service_account: Account that the training job runs as; empty: Vertex AI's own.
        network: VPC network of the training job, projects/NUMBER/global/networks/NAME.
        tensorboard: Instance for the training job's logs, projects/P/locations/L/tensorboards/ID.
        on_failure_url: Web address that receives the summary of a run that did not succeed.
        release: Replay, canary and what stays deployed (ReleaseOptions), a JSON object.
    """
    exit_task = teardown(
        run=RUN, keep_endpoint=keep_endpoint, on_failure_url=on_failure_url, **LOCATION
    )
    exit_task.set_display_name("teardown").set_caching_options(False)

    with dsl.ExitHandler(exit_task, name="run"):
        champion = find_champion(display_name=model_name, **LOCATION).set_caching_options(False)
        source = {"workload": workload, "data_dir": data_dir, "trust_files": trust_files}
        found_input = fingerprint_input(
            **source,
            **LOCATION,
            run=RUN,
            model_name=model_name,
            prepare=prepare,
            trigger=trigger,
            champion=champion.outputs["version"],
            champion_uri=champion.outputs["model_uri"],
            schedule_time=dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER,
            create_time=dsl.PIPELINE_JOB_CREATE_TIME_UTC_PLACEHOLDER,
        ).set_caching_options(False)

        with dsl.If(found_input.outputs["verdict"] != NOTHING_NEW, name="if-new-data"):
            prepared = prepare_examples(
                **source,
                prepare=found_input.outputs["prepare"],  # the files and days of this run
                max_examples=max_examples,
                input_fingerprint=found_input.outputs["fingerprint"],  # changes with their content
            )
            examples = prepared.outputs["examples"]
            compared = compare_data(
                examples=examples,
                prepare=prepare,
                trigger=trigger,
                champion=found_input.outputs["champion"],
                champion_uri=found_input.outputs["champion_uri"],
                verdict=found_input.outputs["verdict"],
                reasons=found_input.outputs["reasons"],
            )

            with dsl.If(compared.outputs["verdict"] == TRAIN, name="if-train"):
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
                    persistent_resource_id="",  # kfp.local cannot resolve GCPC's placeholder
                    **LOCATION,
                ).set_display_name("train")
                found = find_version(display_name=model_name, model=model, **LOCATION)
                found.after(trained).set_caching_options(False)
                evaluated = evaluate(
                    thresholds=thresholds,
                    gate=gate,
                    examples=examples,
                    model=model,
                    champion_version=found.outputs["champion_version"],
                    champion_uri=found.outputs["champion_uri"],
                )
                golden = evaluated.outputs["golden"]

                with dsl.If(evaluated.outputs["verdict"] == "passed", name="if-passed"):
                    checked = check_model(model=model, golden=golden, gate=gate)

                    with dsl.If(found.outputs["known_version"] == "", name="if-new"):
                        uploaded, recorded = upload_version(
                            model, found, evaluated, name=model_name, state=CANDIDATE
                        )
                        uploaded.set_display_name("upload-model").after(checked)
                        endpoint = ensure_endpoint(display_name=endpoint_name, run=RUN, **LOCATION)
                        endpoint.after(uploaded).set_caching_options(False)
                        version = recorded.outputs["version"]
                        deployed = ModelDeployOp(  # without traffic, if another version has it
                            model=version,
                            endpoint=endpoint.outputs["endpoint"],
                            dedicated_resources_machine_type=serving_machine,
                            dedicated_resources_min_replica_count=1,
                            dedicated_resources_max_replica_count=1,
                        ).set_display_name("deploy-model")
                        deployed.set_caching_options(False)
                        released = release_model(
                            version=version,
                            endpoint=endpoint.outputs["endpoint"],
                            model=model,
                            examples=examples,
                            golden=golden,
                            thresholds=thresholds,
                            gate=gate,
                            champion_version=found.outputs["champion_version"],
                            reasons=evaluated.outputs["reasons"],
                            run=RUN,
                            release=release,
                            **LOCATION,
                        )
                        released.after(deployed).set_caching_options(False)

                    with dsl.Else(name="if-known"):
                        serve_known(
                            version=found.outputs["known_version"],
                            endpoint_name=endpoint_name,
                            machine=serving_machine,
                            keep_endpoint=keep_endpoint,
                            run=RUN,
                            golden=golden,
                            release=release,
                            **LOCATION,
                        ).after(checked).set_caching_options(False)

                with (
                    dsl.If(evaluated.outputs["challenger"] == "yes", name="if-challenger"),
                    dsl.If(found.outputs["known_version"] == "", name="if-new-challenger"),
                ):
                    kept, recorded = upload_version(
                        model, found, evaluated, name=model_name, state=CHALLENGER
                    )
                    kept.set_display_name("keep-challenger")
                    recorded.set_display_name("record-challenger")

        for step in (champion, found_input, prepared, compared, plan, found, evaluated):
            step.set_retry(**RETRY)
        for step in (checked, endpoint, exit_task):
            step.set_retry(**RETRY)
