"""Long-running resources (training and tuning jobs, pipeline runs): wait, cancel, delete."""

import dataclasses
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter

from components.shared.vertex.api import VertexApi, list_named
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import RUN_LABEL, STEP_LABEL, label_of
from pipelines.errors import ResourceError
from pipelines.resources.names import not_found, short_name
from trainer import Json

POLL_SECONDS = 0.5
LATEST = "latest"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of long-running resource.

    `final_states` are without the prefix. `has_chosen_ids` if a resource's creator chooses its id;
    other ids are numbers.
    """

    noun: str
    collection: str
    state_prefix: str
    final_states: frozenset[str]
    has_chosen_ids: bool = False

    def path(self, api: VertexApi, name: str) -> str:
        """Return the resource name of an id."""
        return f"{api.parent}/{self.collection}/{name}"

    def get(self, api: VertexApi, name: str) -> Json:
        """Return a resource, by the names of `find`, as Vertex AI returns it.

        Raises:
            VertexError: NOT_FOUND; has the names that exist, the newest first.
        """
        if resource := self.find(api, name):
            return resource
        resources = list(api.list_resources(self.collection))
        resources.sort(key=itemgetter("createTime"), reverse=True)
        names = dict.fromkeys(resource["displayName"] for resource in resources)
        raise not_found(self.noun, name, list(names))

    def find(self, api: VertexApi, name: str) -> Json | None:
        """Return a resource by id, the newest of a display name, or with `latest` of all.

        One that `trainyard step` executes at the time, or left when it was killed, is not `latest`.
        """
        if self._is_id(name) and (resource := api.find(self.path(api, name))):
            return resource
        resources: Iterable[Json] = list_named(api, self.collection, name)
        if name == LATEST:
            listed = api.list_resources(self.collection)
            resources = (body for body in listed if STEP_LABEL not in body.get("labels", {}))
        newest = max(resources, key=itemgetter("createTime"), default=None)
        return newest and api.get(newest["name"])

    def id_called(self, api: VertexApi, name: str) -> str:
        """Return the id that a name stands for."""
        return name if self._is_id(name) else short_name(self.get(api, name)["name"])

    def described(self, resource: Json) -> str:
        """Return a resource by all its names: `job 1002 (train-mnist) of run mnist-20261121`."""
        name, shown = short_name(resource["name"]), resource["displayName"]
        run = label_of(resource, RUN_LABEL)
        names = name if shown == name else f"{name} ({shown})"
        return f"{self.noun} {names}" + (f" of run {run}" if run and run != name else "")

    def _is_id(self, name: str) -> bool:
        return name != LATEST and (self.has_chosen_ids or name.isdecimal())

    def state_of(self, resource: Json) -> str:
        """Return the state without its prefix: `RUNNING`."""
        return str(resource.get("state", "")).removeprefix(self.state_prefix)

    def is_final(self, resource: Json) -> bool:
        """Return whether the resource has reached a final state."""
        return self.state_of(resource) in self.final_states

    def polled(
        self, api: VertexApi, name: str, *, timeout_seconds: float = math.inf
    ) -> Iterator[Json]:
        """Yield a resource at intervals until it has reached a final state.

        Raises:
            TimeoutError: it did not in time; the message has its state.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            resource = self.get(api, name)
            yield resource
            if self.is_final(resource):
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(
                    f"{self.noun} {name} is {self.state_of(resource)} after {timeout_seconds:g} s; "
                    "it continues"
                )
            time.sleep(min(max(POLL_SECONDS, api.min_poll_seconds), left))

    def wait(self, api: VertexApi, name: str, *, timeout_seconds: float = math.inf) -> Json:
        """Wait until a resource reaches a final state, as `polled`; return it."""
        [ended] = deque(self.polled(api, name, timeout_seconds=timeout_seconds), maxlen=1)
        return ended

    def cancel(self, api: VertexApi, name: str) -> Json:
        """Request cancellation unless the resource is final; return it as it was before."""
        resource = self.get(api, name)
        if self.is_final(resource):
            return resource
        try:
            api.post(f"{self.path(api, name)}:cancel", {})
        except VertexError as error:
            if error.status != "FAILED_PRECONDITION":  # it ended in the meantime
                raise
        return resource

    def delete(self, api: VertexApi, name: str) -> None:
        """Delete a resource in a final state; its outputs stay.

        Raises:
            ResourceError: it is not final yet.
        """
        resource = self.get(api, name)
        if not self.is_final(resource):
            raise ResourceError(
                f"{self.noun} {name} is {self.state_of(resource)}; cancel it first "
                f"(trainyard {self.noun}s cancel {name}) and wait until it has ended"
            )
        operation = api.delete(self.path(api, name))
        api.wait(operation)


JOB = Kind(
    noun="job",
    collection="customJobs",
    state_prefix="JOB_STATE_",
    final_states=frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED", "PARTIALLY_SUCCEEDED"}),
)
TUNING = dataclasses.replace(JOB, noun="tuning job", collection="hyperparameterTuningJobs")
RUN = Kind(
    noun="run",
    collection="pipelineJobs",
    state_prefix="PIPELINE_STATE_",
    final_states=frozenset({"SUCCEEDED", "FAILED", "CANCELLED"}),
    has_chosen_ids=True,
)
