"""Versions and aliases of a model's record."""

import pytest

from vertex_local.errors import ApiError
from vertex_local.models import record as registry

pytestmark = pytest.mark.fast

NAME = "projects/p/locations/l/models/5"


@pytest.fixture
def record():
    """A model without versions."""
    return registry.new_record(NAME, folder="5", model={"displayName": "m"}, time="t0")


@pytest.fixture
def versions(record):
    """Its three versions by id; `golden` is version 2, `default` version 1."""
    added = {}
    for number, aliases in ((1, []), (2, ["golden"]), (3, [])):
        model = {"versionAliases": aliases, "displayName": "ignored", "name": "x", "etag": "y"}
        model["labels"] = {"number": str(number)}
        added[str(number)] = registry.add_version(
            record, model=model, artifact_uri=f"/a/{number}", time=f"t{number}"
        )
    return added


def aliases_of(record, versions):
    return {key: registry.aliases_of(record, version) for key, version in versions.items()}


def test_view_has_the_fields_of_model_and_version(record, versions):
    record["labels"] = {"team": "a", "run": "old"}
    versions["2"]["labels"] = {"run": "new"}
    view = registry.view(record, versions["2"])
    assert view["name"] == NAME
    assert view["displayName"] == "m"
    assert view["labels"] == {"team": "a", "run": "new"}
    assert (view["createTime"], view["versionCreateTime"]) == ("t0", "t2")
    assert (view["versionId"], view["artifactUri"]) == ("2", "/a/2")
    assert view["versionAliases"] == ["golden"]
    assert "modelLabels" not in view
    registry.move_aliases(record, versions["2"], ["best"])
    assert view["etag"] == registry.view(record, versions["2"])["etag"]
    versions["2"]["labels"] = {"run": "newer"}
    assert view["etag"] != registry.view(record, versions["2"])["etag"]


@pytest.mark.parametrize(
    ("reference", "version_id"), [("", "1"), ("default", "1"), ("golden", "2"), ("3", "3")]
)
@pytest.mark.usefixtures("versions")
def test_version_is_found_by_id_and_alias(record, reference, version_id):
    assert registry.version_id_of(record, reference) == version_id


@pytest.mark.parametrize(
    ("version", "changes", "expected"),
    [
        ("3", ["default"], {"1": [], "2": ["golden"], "3": ["default"]}),
        ("3", ["default", "golden"], {"1": [], "2": [], "3": ["default", "golden"]}),
        ("2", ["-golden"], {"1": ["default"], "2": [], "3": []}),
        ("2", ["-golden", "new"], {"1": ["default"], "2": ["new"], "3": []}),
        ("2", ["golden", "-golden"], {"1": ["default"], "2": ["golden"], "3": []}),
        ("3", ["-golden"], {"1": ["default"], "2": ["golden"], "3": []}),
    ],
)
def test_aliases_are_merged(record, versions, version, changes, expected):
    registry.merge_aliases(record, versions[version], changes)
    assert aliases_of(record, versions) == expected
    [default] = [key for key, aliases in expected.items() if "default" in aliases]
    assert record["versionLabels"] == {"number": default}


def test_default_alias_cannot_be_removed(record, versions):
    with pytest.raises(ApiError, match="-default"):
        registry.merge_aliases(record, versions["1"], ["-default"])


def test_default_goes_to_the_newest_when_its_version_is_removed(record, versions):
    registry.remove_version(record, versions.pop("1"), newest=versions["3"])
    assert aliases_of(record, versions) == {"2": ["golden"], "3": ["default"]}
    assert record["versionLabels"] == {"number": "3"}
    assert registry.next_version_id(record) == "4"
