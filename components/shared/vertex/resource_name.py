"""Resource names of Vertex AI."""

import dataclasses
import os
import re
from dataclasses import dataclass

from components.shared.vertex.api import EMULATOR_VARIABLE, TOKEN_VARIABLE

_PATTERN = re.compile(
    r"(projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)|publishers/(?P<publisher>[^/]+))"
    r"/(?P<collection>[^/]+)/(?P<id>[^/@]+)(@(?P<version>[^/@]+))?"
)
GOOGLE = "https://console.cloud.google.com"
# By collection: the section of the local console, and the path in Google's.
PAGES = {
    "pipelineJobs": ("runs", "vertex-ai/locations/{location}/pipelines/runs/{id}"),
    "customJobs": ("jobs", "vertex-ai/locations/{location}/training/{id}"),
    "hyperparameterTuningJobs": ("tuning", "vertex-ai/locations/{location}/training/{id}"),
    "models": ("models", "vertex-ai/models/locations/{location}/models/{id}/versions/{version}"),
}


@dataclass(frozen=True)
class ResourceName:
    """Name of a resource, `projects/P/locations/L/COLLECTION/ID`; a model's also with `@VERSION`.

    `version` is a version's number or alias, empty in a name without one. The name of a model of
    Model Garden has a publisher instead of project and location: `publishers/google/models/ID`.
    As text it is the last part of the name: `5@2`.
    """

    project: str
    location: str
    collection: str
    id: str
    version: str = ""
    publisher: str = ""

    @classmethod
    def from_name(cls, name: str) -> "ResourceName":
        """Parse a resource name.

        Raises:
            ValueError: it is malformed; names it.
        """
        match = _PATTERN.fullmatch(name)
        if not match:
            raise ValueError(
                f"{name!r} is not a resource name; "
                "expected projects/PROJECT/locations/LOCATION/COLLECTION/ID"
            )
        return cls(**match.groupdict(default=""))

    @classmethod
    def from_version_name(cls, name: str) -> "ResourceName":
        """Parse the name of a model version.

        Raises:
            ValueError: it is malformed or has no version; names it.
        """
        parsed = cls.from_name(name)
        if not parsed.version:
            raise ValueError(f"{name!r} has no version; expected {name}@VERSION")
        return parsed

    def with_version(self, version: object) -> "ResourceName":
        """Return the name of a version of this model."""
        return dataclasses.replace(self, version=str(version))

    @property
    def name(self) -> str:
        """The complete resource name."""
        if self.publisher:
            return f"publishers/{self.publisher}/{self.collection}/{self}"
        return f"projects/{self.project}/locations/{self.location}/{self.collection}/{self}"

    @property
    def unversioned(self) -> str:
        """The complete resource name without the version: of a version, its model."""
        return self.with_version("").name

    def __str__(self) -> str:
        return f"{self.id}@{self.version}" if self.version else self.id


def console_page(name: str) -> str:
    """Return the address of the page of a run, a job or a model version."""
    resource = ResourceName.from_name(name)
    section, path = PAGES[resource.collection]
    if emulator := os.environ.get(EMULATOR_VARIABLE):
        return f"http://{emulator}/{section}/{resource.project}/{resource.location}/{resource.id}"
    return f"{GOOGLE}/{path.format(**vars(resource))}?project={resource.project}"


def to_open(page: str) -> str:
    """Return the address of a page with the token that the local service may require.

    A browser keeps the token as a cookie. It is a secret: not for files that others may read.
    """
    token = os.environ.get(TOKEN_VARIABLE) if page else ""
    return f"{page}{'&' if '?' in page else '?'}token={token}" if token else page
