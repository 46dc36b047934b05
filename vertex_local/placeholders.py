"""The placeholders that describe a run rather than a task's inputs, as Vertex AI fills them."""

import re
from typing import Any

Json = dict[str, Any]

PLACEHOLDER = re.compile(r"\{\{\$\.[a-z_]+\}\}")


def of_job(job: Json) -> dict[str, str]:
    """The value of every placeholder that is the same for all tasks of a PipelineJob."""
    _, project, _, location, _, job_id = job["name"].split("/")
    values = {
        "pipeline_job_name": job_id,
        "pipeline_job_uuid": job_id,
        "pipeline_job_resource_name": job["name"],
        "pipeline_job_create_time_utc": job.get("createTime", ""),
        "pipeline_job_schedule_time_utc": job.get("scheduledRunTime") or job.get("createTime", ""),
        "pipeline_google_cloud_project_id": project,
        "pipeline_google_cloud_location": location,
        "pipeline_service_account": job.get("serviceAccount", ""),
        "pipeline_network": job.get("network", ""),
        "pipeline_encryption_key_name": job.get("encryptionSpec", {}).get("kmsKeyName", ""),
        "pipeline_persistent_resource_id": "",
    }
    return {f"{{{{$.{name}}}}}": value for name, value in values.items()}


def fill(text: str, values: dict[str, str]) -> str:
    """Replaces the placeholders that `values` knows."""
    if "{{$." not in text:
        return text
    return PLACEHOLDER.sub(lambda match: values.get(match[0], match[0]), text)
