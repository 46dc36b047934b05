"""Descriptions of the pipeline's parameters, as the console of Vertex AI shows them."""

from collections.abc import Callable
from typing import Any

PARAMETERS = """\
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


def described(pipeline: Callable[..., Any]) -> Callable[..., Any]:
    """Add the descriptions to the docstring of a pipeline, where KFP reads them."""
    pipeline.__doc__ = f"{pipeline.__doc__}\n\n{PARAMETERS}"
    return pipeline
