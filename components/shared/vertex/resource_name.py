"""Resource names of Vertex AI."""

import dataclasses
import re
from dataclasses import dataclass

_PATTERN = re.compile(
    r"(projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)|publishers/(?P<publisher>[^/]+))"
    r"/(?P<collection>[^/]+)/(?P<id>[^/@]+)(@(?P<version>[^/@]+))?"
)


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
