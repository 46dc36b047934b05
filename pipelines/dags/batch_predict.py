"""Pipeline: predictions of a model's promoted version for files, as a schedule runs it."""

from google_cloud_pipeline_components.v1.batch_predict_job import ModelBatchPredictOp
from kfp import dsl

from components.model_version.component import find_version
from pipelines.dags.parts import LOCATION, torn_down


@dsl.pipeline(
    name="batch-predict",
    description="Predictions of a model's promoted version for the instances of files.",
)
def batch_predict_files(  # noqa: PLR0917  KFP passes them by position
    model_name: str,
    inputs: list[str],
    output_dir: str,
    instances_format: str = "jsonl",
    machine: str = "n1-standard-4",
    replicas: int = 1,
    on_failure_url: str = "",
):
    """Predict files with the version that has the alias default when the run starts.

    Args:
        model_name: Display name of the model.
        inputs: Addresses of the files, which may have wildcards.
        output_dir: Folder in which a folder with the predictions is made.
        instances_format: jsonl, or another one that the model's server can read: csv, tf-record,
            tf-record-gzip.
        machine: Type of the machines.
        replicas: Number of the machines.
        on_failure_url: Web address that receives the summary of a run that did not succeed.
    """
    with torn_down(keep_endpoint=True, on_failure_url=on_failure_url):
        version = find_version(model_name=model_name, **LOCATION)
        version.set_caching_options(False)
        predicted = ModelBatchPredictOp(
            job_display_name=model_name,
            model=version.outputs["model"],
            instances_format=instances_format,
            gcs_source_uris=inputs,
            gcs_destination_output_uri_prefix=output_dir,
            machine_type=machine,
            starting_replica_count=replicas,
            max_replica_count=replicas,
            **LOCATION,
        )
        predicted.set_caching_options(False)
