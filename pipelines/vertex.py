"""Sends a compiled pipeline to Vertex AI, or to the emulator that the environment names."""

import logging
import os
from pathlib import Path
from typing import Any

from components.labels import RUN_LABEL
from components.vertex_api import EMULATOR_VARIABLE
from pipelines.target import Target


def submit(
    template: Path,
    *,
    target: Target,
    run: str,
    parameters: dict[str, Any],
    enable_caching: bool | None = None,
    service_account: str | None = None,
) -> str:
    """Submits the compiled pipeline `template` as the PipelineJob `run`; answers its resource name.

    `enable_caching` None leaves each task as it was compiled; False runs every task anew.
    """
    from google.cloud import aiplatform

    _init_sdk(target)
    _silence_sdk(is_local=not target.pipeline_root.startswith("gs://"))
    job = aiplatform.PipelineJob(
        display_name=run,
        template_path=str(template),
        job_id=run,
        pipeline_root=target.pipeline_root,  # the run has a folder of its name in it
        parameter_values=parameters,
        enable_caching=enable_caching,
        labels={RUN_LABEL: run},
    )
    job.submit(service_account=service_account)
    return f"{target.parent}/pipelineJobs/{run}"


def _init_sdk(target: Target) -> None:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import aiplatform

    emulator = os.environ.get(EMULATOR_VARIABLE)
    if not emulator:
        aiplatform.init(project=target.project, location=target.location)
        return
    aiplatform.init(
        project=target.project,
        location=target.location,
        api_endpoint=f"http://{emulator}",
        api_transport="rest",
        credentials=AnonymousCredentials(),
    )


def _silence_sdk(*, is_local: bool) -> None:
    """Drops what the SDK prints when it submits; problems stay.

    It looks for a bucket first, and logs a traceback where the pipeline's root is a folder.
    """
    logger = logging.getLogger("google.cloud.aiplatform.pipeline_jobs")
    logger.setLevel(logging.WARNING)
    if is_local:
        logger.addFilter(lambda record: "GCS bucket" not in record.getMessage())
