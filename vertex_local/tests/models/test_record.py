"""Versions and aliases of a model's record."""

import pytest

from vertex_local.errors import ApiError
from vertex_local.models import record as registry

pytestmark = pytest.mark.fast

NAME = "projects/p/locations/l/models/5"


@pytest.fixture
def record():
    """A model with three versions; `golden` is version 2, `default` version 1."""
    record = registry.new_record(NAME, folder="5", model={"displayName": "m"}, time="t0")
    for number, aliases in ((1, []), (2, ["golden"]), (3, [])):
        model = {"versionAliases": aliases, "displayName": "ignored", "name": "x", "etag": "y"}
        registry.add_version(record, model=model, artifact_uri=f"/a/{number}", time=f"t{number}")
    return record


def aliases_of(record):
    return {v["versionId"]: v["versionAliases"] for v in record["versions"]}


def test_first_version_is_the_default_and_ids_increase(record):
    assert aliases_of(record) == {"1": ["default"], "2": ["golden"], "3": []}


def test_view_has_the_fields_of_model_and_version(record):
    record["labels"] = {"team": "a", "run": "old"}
    record["versions"][1]["labels"] = {"run": "new"}
    view = registry.view(record, record["versions"][1])
    assert view["name"] == NAME
    assert view["displayName"] == "m"
    assert view["labels"] == {"team": "a", "run": "new"}
    assert (view["createTime"], view["versionCreateTime"]) == ("t0", "t2")
    assert (view["versionId"], view["artifactUri"]) == ("2", "/a/2")
    assert view["etag"] == registry.view(record, record["versions"][1])["etag"]
    record["versions"][1]["labels"] = {"run": "newer"}
    assert view["etag"] != registry.view(record, record["versions"][1])["etag"]


@pytest.mark.parametrize(
    ("reference", "version_id"), [("", "1"), ("default", "1"), ("golden", "2"), ("3", "3")]
)
def test_version_is_found_by_id_and_alias(record, reference, version_id):
    assert registry.find_version(record, reference)["versionId"] == version_id


def test_unknown_version_is_not_found(record):
    with pytest.raises(ApiError, match="models/5@silver"):
        registry.find_version(record, "silver")


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
def test_aliases_are_merged(record, version, changes, expected):
    registry.merge_aliases(record, registry.find_version(record, version), changes)
    assert aliases_of(record) == expected


def test_default_alias_cannot_be_removed(record):
    with pytest.raises(ApiError, match="-default"):
        registry.merge_aliases(record, record["versions"][0], ["-default"])


def test_default_goes_to_the_newest_when_its_version_is_removed(record):
    registry.remove_version(record, record["versions"][0])
    assert aliases_of(record) == {"2": ["golden"], "3": ["default"]}
    assert registry.next_version_id(record) == "4"


def test_the_only_version_cannot_be_removed(record):
    for _ in range(2):
        registry.remove_version(record, record["versions"][0])
    with pytest.raises(ApiError, match="delete the model"):
        registry.remove_version(record, record["versions"][0])
