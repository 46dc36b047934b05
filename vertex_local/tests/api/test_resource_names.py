"""Names of resources, parsed and written."""

import pytest

from vertex_local.api.resource_names import ResourcePath

pytestmark = pytest.mark.fast

PARENT = "projects/p/locations/l"


@pytest.mark.parametrize(
    ("name", "collection", "kind", "resource_id"),
    [
        (f"{PARENT}/models/5", "models", "models", "5"),
        (f"{PARENT}/operations/7", "operations", "operations", "7"),
        (f"{PARENT}/models/5/operations/7", "models/5/operations", "operations", "7"),
    ],
)
def test_name_is_parsed_and_written(name, collection, kind, resource_id):
    parsed = ResourcePath.from_name(name)
    assert parsed == ResourcePath("p", "l", collection, resource_id)
    assert parsed.name == name
    assert parsed.parent == PARENT
    assert parsed.kind == kind
    assert parsed.full_collection == f"{PARENT}/{collection}"


@pytest.mark.parametrize("name", ["", "models/5", PARENT, f"{PARENT}/models", "a/p/b/l/models/5"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="projects/P/locations/L"):
        ResourcePath.from_name(name)
