"""Reads what the tasks of a pipeline run have put out, from its PipelineJob."""

from typing import Any

from components.vertex_api import Json

# Metadata of the endpoint that `ensure_endpoint` puts out: `yes` or `no`.
SERVED_BEFORE = "servedBefore"


def details_by_name(job: Json) -> dict[str, Json]:
    """Return the newest detail of each task of a PipelineJob, by the task's name in the graph."""
    return {d["taskName"]: d for d in job.get("jobDetail", {}).get("taskDetails", [])}


def outputs_of(detail: Json) -> dict[str, Any]:
    """Return output parameters by name, and for each output artifact its metadata and address."""
    metadata = detail.get("execution", {}).get("metadata", {})
    outputs = {
        key.removeprefix("output:"): value
        for key, value in metadata.items()
        if key.startswith("output:")
    }
    for name, artifacts in detail.get("outputs", {}).items():
        for artifact in artifacts.get("artifacts", []):
            outputs[name] = {"uri": artifact.get("uri", ""), **artifact.get("metadata", {})}
    return outputs
