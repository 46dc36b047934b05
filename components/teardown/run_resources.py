"""Resources that a run created, found by its task details, or by label for an interrupted task."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from components.endpoint.ensure import find_endpoint
from components.model_version.registry import list_versions
from components.release.options import ReleaseOptions
from components.run_result.settings import parameters_of
from components.shared.vertex.api import VertexApi, list_named
from components.shared.vertex.creations import endpoint_id_of
from components.shared.vertex.labels import BILLING_LABEL, RUN_LABEL
from components.shared.vertex.resource_name import ResourceName
from components.shared.vertex.task_details import (
    SERVED_BEFORE,
    details_by_name,
    leaf_tasks,
    outputs_of,
)
from trainer import Json

# Names of tasks in the compiled pipeline; RECORD also finds or creates the endpoint.
TRAIN, UPLOAD, RECORD = "train", "upload-model", "record-version"
DEPLOY, EXIT = "deploy-model", "teardown"
EVALUATE, KNOWN = "evaluate", "serve-known"
DONE, NOT_TRIGGERED = ("SUCCEEDED", "SKIPPED"), ("NOT_TRIGGERED",)
NOTHING_MADE = (*DONE, *NOT_TRIGGERED)


@dataclass(frozen=True)
class RunResources:
    """Resources that a run created, looked up with as few requests as its task details allow.

    `job` is the run's PipelineJob, {} if it does not exist.
    """

    api: VertexApi
    run: str
    job: Json = field(repr=False)

    @classmethod
    def of_run(cls, api: VertexApi, run: str) -> "RunResources":
        """Read the PipelineJob of a run; the rest is read when it is used."""
        return cls(api, run, api.find(f"{api.parent}/pipelineJobs/{run}") or {})

    @property
    def label(self) -> str:
        """A filter for the label that only jobs and versions of this run have."""
        labels = self.job.get("labels", {})
        if BILLING_LABEL in labels:
            return f'labels.{BILLING_LABEL}="{labels[BILLING_LABEL]}"'
        return f'labels.{RUN_LABEL}="{self.run}"'

    def custom_jobs(self) -> list[Json]:
        """Return the training jobs, or none if training succeeded or was skipped."""
        if self._is_settled(TRAIN, NOTHING_MADE):
            return []
        return list(self.api.list_resources("customJobs", filter=self.label))

    @property
    def own_endpoint(self) -> str:
        """The resource name of the endpoint that the run creates if there is none yet."""
        return f"{self.api.parent}/endpoints/{endpoint_id_of(self.run)}"

    def unsettled(self) -> set[str]:
        """Return the names of the resources that operations of lost tasks may still change."""
        names = set[str]()
        if not all(self._is_settled(task, NOTHING_MADE) for task in (UPLOAD, RECORD)):
            names.update(self._models())
        if not self._is_settled(RECORD, NOTHING_MADE):
            names.add(self.own_endpoint)
        if not all(self._is_settled(task, NOTHING_MADE) for task in (DEPLOY, KNOWN)):
            names.update(endpoint["name"] for endpoint in self._find_endpoints())
        return names

    @cached_property
    def versions(self) -> list[Json]:
        """The model versions of the run that still exist."""
        if self._is_settled(UPLOAD, NOT_TRIGGERED):
            return []
        if recorded := self._output(RECORD, "version.resourceName"):
            version = self._find(recorded)
            return [version] if version else []
        return [
            version
            for model in self._models()
            for version in list_versions(self.api, model, filter=self.label)
        ]

    @cached_property
    def half_served(self) -> Json | None:
        """The registered version that a lost task may have begun to serve, and to promote."""
        if self._is_settled(KNOWN, NOTHING_MADE):
            return None
        return self._find(self._output(EVALUATE, "known_version"))

    @cached_property
    def endpoints(self) -> list[Json]:
        """The endpoints that may serve one of the versions, or that the run created."""
        return self._find_endpoints()

    def _find_endpoints(self) -> list[Json]:
        if self._is_settled(RECORD, DONE):
            name = self._output(RECORD, "endpoint.resourceName")
            return [endpoint] if (endpoint := self._find(name)) else []
        if self._is_settled(RECORD, NOT_TRIGGERED) and self._is_settled(KNOWN, NOTHING_MADE):
            return []
        if name := self._parameter("endpoint_name"):
            return [endpoint] if (endpoint := find_endpoint(self.api, name)) else []
        return list(self.api.list_resources("endpoints"))

    @property
    def is_lost(self) -> bool:
        """True if the pipeline has a teardown that did not succeed."""
        return EXIT in self._tasks and not self._is_settled(EXIT, DONE)

    @property
    def keep_endpoint(self) -> bool:
        """True if the promoted version stays deployed after the run."""
        return self._parameter("keep_endpoint").lower() == "true"

    @property
    def served_before(self) -> bool:
        """True if the endpoint had traffic before this run."""
        return self._output(RECORD, f"endpoint.{SERVED_BEFORE}") == "yes"

    @property
    def release_options(self) -> ReleaseOptions:
        """Settings of the run's release."""
        return ReleaseOptions.from_json(self._parameter("release"))

    def _models(self) -> Iterator[str]:
        name = self._parameter("model_name")
        api = self.api
        models = list_named(api, "models", name) if name else api.list_resources("models")
        return (ResourceName.from_name(model["name"]).unversioned for model in models)

    @cached_property
    def _tasks(self) -> dict[str, str]:
        return leaf_tasks(self.job)

    def _is_settled(self, task: str, states: tuple[str, ...]) -> bool:
        """Return whether a task of the run is in one of these states, or not in its pipeline."""
        if self._tasks and task not in self._tasks:
            return True
        return details_by_name(self.job).get(task, {}).get("state") in states

    def _output(self, task: str, name: str) -> str:
        return str(outputs_of(details_by_name(self.job).get(task, {})).get(name, ""))

    def _parameter(self, name: str) -> str:
        return str(parameters_of(self.job).get(name) or "")

    def _find(self, name: str) -> Json | None:
        return self.api.find(name) if name else None
