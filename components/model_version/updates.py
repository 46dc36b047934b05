"""Changes of a model version that lose nobody else's."""

from collections.abc import Callable

from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.resource_name import ResourceName
from trainer import Json

MAX_ATTEMPTS = 10
# Of a request whose etag is no longer the resource's.
CONFLICTS = ("ABORTED", "FAILED_PRECONDITION")


def update_version(api: VertexApi, version: ResourceName, change: Callable[[Json], Json]) -> None:
    """Change fields of a version, such as its labels, which are only replaced as a whole.

    `change` returns the new fields of the version as it is, {} for no change; it is called again
    if another change came between, which the etag tells.
    """
    for attempt in range(MAX_ATTEMPTS):
        record = api.get(version.name)
        changes = change(record)
        if not changes:
            return
        etag = {"etag": record["etag"]} if "etag" in record else {}
        try:
            api.patch(f"{version.name}?updateMask={','.join(changes)}", {**changes, **etag})
            return
        except VertexError as error:
            if error.status not in CONFLICTS or attempt + 1 == MAX_ATTEMPTS:
                raise
