"""Names of resources, as `projects/P/locations/L/models/5`."""

import re
from dataclasses import dataclass

FORM = re.compile(r"projects/([^/]+)/locations/([^/]+)/(.+)/([^/]+)")


@dataclass(frozen=True)
class ResourcePath:
    """Name of a resource: project, location, collection and id.

    The collection of an operation includes the resource that it changes: `models/5/operations`.
    """

    project: str
    location: str
    collection: str
    id: str

    @classmethod
    def from_name(cls, name: str) -> "ResourcePath":
        """Parse `projects/P/locations/L/COLLECTION/ID`.

        Raises:
            ValueError: The name has another form.
        """
        match = FORM.fullmatch(name)
        if match is None:
            raise ValueError(f"{name!r} is not projects/P/locations/L/COLLECTION/ID")
        return cls(*match.groups())

    @property
    def name(self) -> str:
        """`projects/P/locations/L/COLLECTION/ID`."""
        return f"{self.full_collection}/{self.id}"

    @property
    def parent(self) -> str:
        """`projects/P/locations/L`."""
        return f"projects/{self.project}/locations/{self.location}"

    @property
    def full_collection(self) -> str:
        """`projects/P/locations/L/COLLECTION`."""
        return f"{self.parent}/{self.collection}"

    @property
    def kind(self) -> str:
        """Last segment of the collection: `models`, `operations`."""
        return self.collection.rpartition("/")[2]
