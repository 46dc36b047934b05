"""What jobs and pipeline runs have in common: each runs for a while, is cancelled, is deleted."""

from dataclasses import dataclass

from components.model_version.registry import LRO_TIMEOUT_SECONDS
from components.vertex.api import VertexApi, VertexError
from pipelines.resources import ResourceError
from trainer.json_types import Json


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of resource that ends; `final_states` are without the prefix."""

    noun: str
    collection: str
    state_prefix: str
    final_states: frozenset[str]

    def path(self, api: VertexApi, name: str) -> str:
        """The resource name of one."""
        return f"{api.parent}/{self.collection}/{name}"

    def get(self, api: VertexApi, name: str) -> Json:
        """One as Vertex AI answers it."""
        return api.get(self.path(api, name))

    def state_of(self, resource: Json) -> str:
        """`RUNNING`, without the prefix."""
        return str(resource.get("state", "")).removeprefix(self.state_prefix)

    def is_final(self, resource: Json) -> bool:
        """Whether it has ended."""
        return self.state_of(resource) in self.final_states

    def cancel(self, api: VertexApi, name: str) -> Json:
        """Asks for its end unless it has ended; answers it as it was."""
        resource = self.get(api, name)
        if self.is_final(resource):
            return resource
        try:
            api.post(f"{self.path(api, name)}:cancel", {})
        except VertexError as error:
            if error.status != "FAILED_PRECONDITION":  # it has ended meanwhile
                raise
        return resource

    def delete(self, api: VertexApi, name: str) -> None:
        """Deletes one that has ended; what it made elsewhere stays.

        Raises:
            ResourceError: it has not ended; says what to do.
        """
        resource = self.get(api, name)
        if not self.is_final(resource):
            raise ResourceError(
                f"{self.noun} {name} is {self.state_of(resource)}; end it first: "
                f"trainyard {self.noun}s cancel {name}, and wait until it has"
            )
        operation = api.delete(self.path(api, name))
        api.wait(operation, timeout_seconds=LRO_TIMEOUT_SECONDS)
