"""Lists of every kind over HTTP and in Google's SDK: filters, order, pages, errors."""

import pytest
from google.api_core import exceptions

KINDS = ("models", "endpoints", "customJobs", "pipelineJobs", "schedules", "operations")


@pytest.fixture
def endpoints(service, aiplatform):
    """Ids of endpoints with labels, created in this order: b, a, c."""
    return [
        aiplatform.Endpoint.create(
            display_name=name, labels={"letter": name, "odd": str(number % 2)}
        ).name
        for number, name in enumerate("bac")
    ]


def test_the_sdk_filters_and_orders(service, aiplatform, endpoints):
    def names(**query):
        return [one.display_name for one in aiplatform.Endpoint.list(**query)]

    assert names(filter="labels.odd=0") == ["b", "c"]
    assert names(filter='display_name="a" OR labels.letter="c"') == ["a", "c"]
    assert names(filter="NOT labels.letter:*") == []
    assert names(filter=f"endpoint={endpoints[1]}") == ["a"]
    assert names(order_by="display_name") == ["a", "b", "c"]
    assert names(order_by="create_time desc", filter="labels.odd!=1") == ["c", "b"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("filter=colour%3Dred", '"colour"'),
        ("filter=colour", 'filter "colour"'),
        ("pageToken=100", "pageToken"),
        ("pageSize=x", "pageSize"),
    ],
)
def test_the_error_names_the_invalid_parameter(service, kind, query, word):
    response = service.call("GET", f"{kind}?{query}")
    error = response.json()["error"]
    assert (response.status_code, error["status"]) == (400, "INVALID_ARGUMENT")
    assert word in error["message"]
    assert word != '"colour"' or "create_time" in error["message"]


def test_the_error_in_the_sdk_lists_the_fields(service, aiplatform):
    with pytest.raises(exceptions.BadRequest, match=r'"colour".*display_name'):
        aiplatform.CustomJob.list(filter="colour=red")
    model = aiplatform.Model.upload(display_name="m", serving_container_image_uri="i")
    registry = model.versioning_registry
    with pytest.raises(exceptions.BadRequest, match=r'"colour".*version_id'):
        registry.list_versions(filter="colour=red")
    assert [one.version_id for one in registry.list_versions(filter="NOT labels.x:*")] == ["1"]
