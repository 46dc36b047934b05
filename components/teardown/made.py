"""Finds what a run has made: by its task details, and by its label where a task was interrupted."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from components.endpoint.ensure import find_endpoint
from components.labels import BILLING_LABEL, RUN_LABEL
from components.model_version.registry import list_versions
from components.vertex.api import VertexApi
from components.vertex.resource_name import ResourceName
from components.vertex.task_details import SERVED_BEFORE, details_by_name, outputs_of
from trainer.json_types import Json

# Tasks of the DAG, by their names in the graph.
TRAIN, UPLOAD, ENDPOINT = "custom-training-job", "model-upload", "ensure-endpoint"
DONE = ("SUCCEEDED", "SKIPPED")
NOTHING_MADE = (*DONE, "NOT_TRIGGERED")


@dataclass(frozen=True)
class Made:
    """What one run has made, looked up with as few calls as its task details allow.

    `job` is its PipelineJob, {} if there is none.
    """

    api: VertexApi
    run: str
    job: Json = field(repr=False)

    @classmethod
    def by(cls, api: VertexApi, run: str) -> "Made":
        """Return what a run has made."""
        return cls(api, run, api.find(f"{api.parent}/pipelineJobs/{run}") or {})

    @property
    def label(self) -> str:
        """A filter for the label that jobs and versions of this run have, and no others."""
        labels = self.job.get("labels", {})
        if BILLING_LABEL in labels:
            return f'labels.{BILLING_LABEL}="{labels[BILLING_LABEL]}"'
        return f'labels.{RUN_LABEL}="{self.run}"'

    def custom_jobs(self) -> list[Json]:
        """Return the training jobs, unless training has ended well or was left out."""
        if self._is_settled(TRAIN, NOTHING_MADE):
            return []
        return list(self.api.list_resources("customJobs", filter=self.label))

    @cached_property
    def versions(self) -> list[Json]:
        """The model versions as the API answers them; a deleted one is left out."""
        if self._is_settled(UPLOAD, DONE):
            name = self._output(UPLOAD, "model").get("resourceName", "")
            return [version] if (version := self._find(name)) else []
        if self._is_settled(UPLOAD, NOTHING_MADE):
            return []
        return [
            version
            for model in self._models()
            for version in list_versions(self.api, model, filter=self.label)
        ]

    @cached_property
    def endpoints(self) -> list[Json]:
        """The endpoints that may serve one of the versions, or that the run has created."""
        if self._is_settled(ENDPOINT, DONE):
            name = self._output(ENDPOINT, "endpoint").get("resourceName", "")
            return [endpoint] if (endpoint := self._find(name)) else []
        if self._is_settled(ENDPOINT, NOTHING_MADE):
            return []
        if name := self._parameter("endpoint_name"):
            return [endpoint] if (endpoint := find_endpoint(self.api, name)) else []
        return list(self.api.list_resources("endpoints"))

    @property
    def served_before(self) -> bool:
        """Whether the endpoint served something when the run came to it."""
        return bool(self._output(ENDPOINT, "endpoint").get(SERVED_BEFORE) == "yes")

    def _models(self) -> Iterator[str]:
        name = self._parameter("model_name")
        found = self.api.list_resources("models", filter=f'display_name="{name}"' if name else "")
        return (ResourceName.from_name(model["name"]).unversioned for model in found)

    def _is_settled(self, task: str, states: tuple[str, ...]) -> bool:
        """Whether the run's PipelineJob says that a task is in one of these states."""
        return details_by_name(self.job).get(task, {}).get("state") in states

    def _output(self, task: str, name: str) -> Json:
        found: Json = outputs_of(details_by_name(self.job).get(task, {})).get(name, {})
        return found

    def _parameter(self, name: str) -> str:
        given = self.job.get("runtimeConfig", {}).get("parameterValues", {})
        root = self.job.get("pipelineSpec", {}).get("root", {})
        defaults = root.get("inputDefinitions", {}).get("parameters", {})
        return str(given.get(name) or defaults.get(name, {}).get("defaultValue", ""))

    def _find(self, name: str) -> Json | None:
        return self.api.find(name) if name else None
