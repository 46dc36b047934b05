"""Filters, pages, order and update masks of requests."""

import pytest

from vertex_local.errors import ApiError
from vertex_local.filters import matches, paginate, update_mask
from vertex_local.routes import Call

JOB = {
    "name": "projects/p/locations/l/customJobs/5",
    "displayName": "train mnist",
    "state": "JOB_STATE_FAILED",
    "labels": {"run": "mnist-1", "vertex-ai-pipelines-run": "r1"},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("labels.run=mnist-1", True),
        ('labels.run="mnist-1"', True),
        ('labels."vertex-ai-pipelines-run"=r1', True),
        ("labels.vertex-ai-pipelines-run=r1", True),
        ("labels.run=mnist", False),
        ("labels.run:*", True),
        ("labels.other:*", False),
        ("labels.other=x", False),
        ("labels.other!=x", True),
        ('display_name="train mnist"', True),
        ('displayName="train mnist" AND state="JOB_STATE_FAILED"', True),
        ('displayName="train mnist"   AND   state!="JOB_STATE_FAILED"', False),
        ('display_name="train*"', True),
        (r'display_name="say \"hi\""', False),
    ],
)
def test_filter(text, expected):
    assert matches(JOB, text) is expected


@pytest.mark.parametrize(
    "text",
    [
        "labels.run",
        "run in (a)",
        'state="x" OR state="y"',
        'state="x" AND',
        'state="x" state="y"',
        "NOT state=x",
        'metadata.run="x"',
        'state="unclosed',
    ],
)
def test_filter_that_is_not_understood_is_refused(text):
    with pytest.raises(ApiError, match="filter"):
        matches(JOB, text)


def call(**query):
    return Call(args={"project": "p", "location": "l"}, query=query)


RESOURCES = [
    {"name": str(n), "createTime": f"2026-01-0{n}", "state": "ab"[n % 2]} for n in (2, 1, 3)
]


def test_pages_cover_everything_once():
    first = paginate(call(pageSize="2"), "jobs", RESOURCES)
    second = paginate(call(pageSize="2", pageToken=first["nextPageToken"]), "jobs", RESOURCES)
    assert first["jobs"] + second["jobs"] == RESOURCES
    assert "nextPageToken" not in second


def test_order_and_filter_come_before_the_page():
    query = {"orderBy": "create_time desc", "filter": "state=b", "pageSize": "1"}
    answer = paginate(call(**query), "jobs", RESOURCES)
    assert [one["name"] for one in answer["jobs"]] == ["3"]
    assert "nextPageToken" in answer


@pytest.mark.parametrize(
    "query", [{"pageSize": "-1"}, {"pageToken": "next"}, {"orderBy": "a b c"}, {"orderBy": "a up"}]
)
def test_bad_query_is_refused(query):
    with pytest.raises(ApiError):
        paginate(call(**query), "jobs", RESOURCES)


def test_update_mask_is_read_in_both_cases():
    allowed = ("displayName", "labels")
    assert update_mask(call(updateMask="display_name,labels"), allowed) == list(allowed)
    with pytest.raises(ApiError, match="allowed are displayName, labels"):
        update_mask(call(updateMask="name"), allowed)
    with pytest.raises(ApiError, match="updateMask"):
        update_mask(call(), allowed)
