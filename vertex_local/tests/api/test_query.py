"""Filters, order, pages and update masks of requests."""

import base64
import json
import random
import sqlite3
from contextlib import closing

import pytest

from vertex_local.api.pages import Page
from vertex_local.api.query import select
from vertex_local.api.routes import Call
from vertex_local.errors import ApiError

pytestmark = pytest.mark.fast

PARENT = "projects/p/locations/l"
JOBS = f"{PARENT}/customJobs"
MODEL = f"{PARENT}/models/5"
JOB = {
    "displayName": "train mnist",
    "state": "JOB_STATE_FAILED",
    "createTime": "2026-01-31T12:00:00.500000Z",
    "labels": {"run": "mnist-1", "vertex-ai-pipelines-run": "r1", "a key": "", "empty": ""},
}


def call(**query):
    return Call(args={"project": "p", "location": "l"}, query=query)


def is_listed(resource, filter_text, kind="customJobs"):
    name = f"{PARENT}/{kind}/five"
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(select.SCHEMA)
        select.put(connection, 7, name, resource)
        page = Page.from_call(call(filter=filter_text), kind, parent=PARENT)
        return page.read(connection) == ([7], "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("  ", True),
        ("labels.run=mnist-1", True),
        ('labels.run="mnist-1"', True),
        ("labels.run='mnist-1'", True),
        ('labels . run="mnist-1"', None),
        ('labels."vertex-ai-pipelines-run"=r1', True),
        ("labels.vertex-ai-pipelines-run=r1", True),
        ("labels.run=mnist", False),
        ("labels.run:mnist-1", True),
        ("labels.run:mnist*", True),
        ("labels.run:*", True),
        ("labels:run", True),
        ("labels:other", False),
        ('labels."a key":*', True),
        ("labels.empty:*", True),
        ('labels.empty=""', True),
        ("labels.other:*", False),
        ("labels.other=x", False),
        ("labels.other!=x", True),
        ("NOT labels.other=x", True),
        ('display_name="train mnist"', True),
        ('display_name = "train mnist"', True),
        ('display_name:"*mnist"', True),
        ('display_name:"TRAIN*"', False),
        ('display_name="train [m]nist"', False),
        ('display_name:"train ?nist*"', False),
        ('displayName="train mnist" AND state="JOB_STATE_FAILED"', True),
        ('displayName="train mnist"   AND   state!="JOB_STATE_FAILED"', False),
        ('display_name="train*"', True),
        ('display_name!="train*"', False),
        (r'display_name="say \"hi\""', False),
        ('state="x" OR state="JOB_STATE_FAILED"', True),
        ("NOT state=x", True),
        ("-state=x", True),
        ("NOT (state=x OR labels.run:*)", False),
        ("NOT NOT state=JOB_STATE_FAILED", True),
        # OR has precedence over AND: https://google.aip.dev/160
        ("state=x AND state=y OR state=JOB_STATE_FAILED", False),
        ("(state=x AND state=y) OR state=JOB_STATE_FAILED", True),
        ('create_time>"2026-01-31T12:00:00Z"', True),
        ("createTime>=2026-01-31T12:00:00.5Z", True),
        ('create_time="2026-01-31T13:00:00.5+01:00"', True),
        ('create_time<"2026-01-31T12:00:00+00:00"', False),
        ('create_time!="2026-01-31T12:00:00Z"', True),
        ('end_time<"2026-01-31T12:00:00Z"', False),
        ('end_time!="2026-01-31T12:00:00Z"', True),
        ("NOT end_time:*", True),
        ("create_time:*", True),
        # A blank joins as AND, with a precedence between OR and AND.
        ('state="JOB_STATE_FAILED" labels.run:*', True),
        ("state=JOB_STATE_FAILED  -labels.run:*", False),
        ("labels.run:* (state=x OR state=JOB_STATE_FAILED)", True),
        ("state=x labels.run:* OR state=JOB_STATE_FAILED", False),
        ("create_time>2026-01-31", True),
        ('create_time<"2026-02-01" create_time>="2026-01-31"', True),
        ('create_time<"2026-01-31"', False),
    ],
)
def test_filter(text, expected):
    if expected is None:
        with pytest.raises(ApiError, match="filter"):
            is_listed(JOB, text)
    else:
        assert is_listed(JOB, text) is expected


@pytest.mark.parametrize(
    ("kind", "resource", "text"),
    [
        ("models", {}, "model=five"),
        ("endpoints", {}, "endpoint=five AND base_model_name!=x"),
        ("pipelineJobs", {}, "pipeline_job_user_id:fi*"),
        ("pipelineJobs", {"pipelineSpec": {"pipelineInfo": {"name": "x"}}}, "pipeline_name=x"),
        ("pipelineJobs", {"templateMetadata": {"version": "v"}}, "template_metadata.version=v"),
        ("pipelineJobs", {"templateUri": "https://x/y"}, 'templateUri:"https://*"'),
        ("pipelineJobs", {"scheduleName": "a/b"}, 'schedule_name="a/b"'),
        ("schedules", {"createPipelineJobRequest": {}}, "create_pipeline_job_request:*"),
        (
            "schedules",
            {"state": "ACTIVE", "nextRunTime": "2026-02-01T00:00:00Z"},
            'next_run_time<="2026-02-01T00:00:00Z" AND NOT end_time:*',
        ),
        ("operations", {"done": True}, "done=true"),
    ],
)
def test_each_kind_has_the_fields_that_vertex_documents(kind, resource, text):
    assert is_listed(resource, text, kind)
    assert not is_listed(resource, f"NOT ({text})", kind)


@pytest.mark.parametrize(
    "text",
    [
        "labels.run",
        "labels=x",
        "run in (a)",
        'state="x" AND',
        "AND",
        "NOT",
        "()",
        "(state=x",
        "state=x)",
        'state="x" and state="y"',
        'state="unclosed',
        "state>x",
        "labels.run>x",
        "create_time>yesterday",
        "create_time>2026-01",
        'create_time>"9999-12-31T23:59:59-10:00"',
        'create_time>"0001-01-01T00:00:00+10:00"',
        'create_time:"2026*"',
        "(" * 5000,
        "NOT " * 2000 + "state=x",
        " OR ".join(["state=x"] * 1000),
        "state=" + "x" * 20_000,
        "state=x;DROP TABLE listed",
    ],
    ids=lambda text: text[:20],
)
def test_an_invalid_filter_is_refused(text):
    with pytest.raises(ApiError, match="filter") as error:
        is_listed(JOB, text)
    assert error.value.code == 400


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"filter": 'metadata.run="x"'}, "metadata.run"),
        ({"filter": "stat=x OR state=y"}, "stat"),
        ({"filter": "name=x"}, "name"),
        ({"filter": "pipeline_name=x"}, "pipeline_name"),
        ({"orderBy": "stat"}, "stat"),
        ({"orderBy": "create_time desc, labels.run"}, "labels.run"),
    ],
)
def test_the_error_for_an_unknown_field_lists_the_known_ones(query, field):
    with pytest.raises(ApiError) as error:
        Page.from_call(call(**query), "customJobs", parent=PARENT)
    assert error.value.code == 400
    assert f'"{field}"' in error.value.message
    assert "display_name, state, create_time" in error.value.message


def test_a_filter_may_have_a_hundred_conditions():
    text = " AND ".join(f"(state!=x{n} OR labels.run:*)" for n in range(100))
    assert is_listed(JOB, text)


def add(store, number, **fields):
    body = {"displayName": f"job {number}", "state": "ab"[number % 2], "n": number, **fields}
    store.insert(f"{JOBS}/{number}", body)


def one_page(store, **query):
    bodies, token = store.page(Page.from_call(call(**query), "customJobs", parent=PARENT).read)
    return [one["n"] for one in bodies], token


def all_pages(store, between=lambda: None, **query):
    found, token = [], ""
    while True:
        numbers, token = one_page(store, pageToken=token, **query)
        found += numbers
        if not token:
            return found
        between()


ORDERS = {
    "": lambda n: n,
    "display_name": lambda n: f"job {n}",
    "state, display_name desc": lambda n: ("ab"[n % 2], [-ord(letter) for letter in str(n)]),
    "displayName desc": lambda n: [-ord(letter) for letter in str(n)] + [0],
}


@pytest.mark.parametrize("order_by", ORDERS)
@pytest.mark.parametrize("size", ["1", "7", "40", "0"])
def test_pages_cover_everything_once_in_order(store, order_by, size):
    for number in range(10, 50):
        add(store, number)
    found = all_pages(store, orderBy=order_by, pageSize=size)
    assert found == sorted(range(10, 50), key=ORDERS[order_by])


@pytest.mark.parametrize("order_by", ["", "create_time desc", "display_name desc"])
def test_no_item_is_skipped_or_repeated_while_others_are_created_and_deleted(store, order_by):
    """Between two pages, delete listed and unlisted items, and create others."""
    chance = random.Random(7)
    kept = set(range(0, 60, 3))
    for number in range(60):
        add(store, number, createTime=f"2026-01-01T00:00:{chance.randrange(60):02}Z")
    coming, going = iter(range(1000, 2000)), [n for n in range(60) if n not in kept]
    chance.shuffle(going)

    def between():
        for _ in range(3):
            if going:
                store.delete(f"{JOBS}/{going.pop()}")
            add(store, next(coming), createTime="2025-01-01T00:00:00Z", state="c")

    found = all_pages(store, between, orderBy=order_by, pageSize="4", filter="NOT state=c")
    assert len(found) == len(set(found))
    assert kept <= set(found)


def test_filter_and_order_see_updates(store):
    for number in range(3):
        add(store, number)
    store.update(f"{JOBS}/1", lambda job: job.update(state="z", labels={"k": "v"}))
    assert one_page(store, filter="state=z AND labels.k=v")[0] == [1]
    store.update(f"{JOBS}/1", lambda job: job.update(labels={}))
    assert one_page(store, filter="labels.k=v")[0] == []
    store.delete(f"{JOBS}/1")
    assert one_page(store, filter="state=z")[0] == []


def test_other_collections_are_not_listed(store):
    add(store, 1)
    store.insert("projects/p/locations/other/customJobs/1", {"n": 2})
    store.insert(f"{JOBS}/1/operations/5", {"n": 3})
    assert one_page(store)[0] == [1]


def token_of(*values):
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


@pytest.mark.parametrize("token", ["x", "2", "é", "=", "a b", token_of(), token_of("x", 1)])
def test_an_invalid_token_is_refused(store, token):
    with pytest.raises(ApiError, match="pageToken") as error:
        one_page(store, pageToken=token)
    assert error.value.code == 400


def test_token_of_another_list_is_refused(store):
    for number in range(5):
        add(store, number)
    _, token = one_page(store, pageSize="2", filter="state=a")
    assert one_page(store, pageSize="3", filter="state=a", pageToken=token) == ([4], "")
    for query in ({}, {"filter": "state=b"}, {"filter": "state=a", "orderBy": "state"}):
        with pytest.raises(ApiError, match="pageToken"):
            one_page(store, pageToken=token, **query)
    other = "projects/p/locations/other"
    with pytest.raises(ApiError, match="pageToken"):
        Page.from_call(call(filter="state=a", pageToken=token), "customJobs", parent=other)


@pytest.mark.parametrize("change", [["", "x"], ["", 1, 2], ["", 2**70], ["", -1], ["", True], [""]])
def test_a_token_with_a_wrong_key_is_refused(store, change):
    add(store, 1)
    add(store, 2)
    _, token = one_page(store, pageSize="1")
    digest, _ = json.loads(base64.urlsafe_b64decode(token + "=="))
    with pytest.raises(ApiError, match="pageToken"):
        one_page(store, pageToken=token_of(digest, *change[1:]))


@pytest.mark.parametrize(
    "query",
    [
        {"pageSize": "-1"},
        {"pageSize": "1e3"},
        {"orderBy": "state a c"},
        {"orderBy": "state up"},
        {"orderBy": "state, state"},
    ],
)
def test_bad_query_is_refused(store, query):
    with pytest.raises(ApiError):
        one_page(store, **query)


def test_versions_have_filters_order_and_pages(store):
    for number in range(1, 13):
        version = {"versionId": str(number), "versionCreateTime": f"2026-01-{number:02}T00:00:00Z"}
        name, labels = f"{MODEL}/versions/{number}", {"odd": str(number % 2)}
        store.insert(name, {**version, "labels": labels})

    def page(**query):
        query |= {"filter": "labels.odd=1", "orderBy": "create_time desc", "pageSize": "4"}
        asked = call(**query)
        versions, token = store.page(Page.from_call(asked, "versions", parent=MODEL).read)
        return [int(version["versionId"]) for version in versions], token

    first, token = page()
    store.delete(f"{MODEL}/versions/9")
    second, last = page(pageToken=token)
    assert (first, second, last) == ([11, 9, 7, 5], [3, 1], "")


def test_update_mask_accepts_snake_case_and_camel_case():
    allowed = ("displayName", "labels")
    assert call(updateMask="display_name,labels").update_mask(allowed) == list(allowed)
    with pytest.raises(ApiError, match="displayName, labels"):
        call(updateMask="name").update_mask(allowed)
    with pytest.raises(ApiError, match="updateMask"):
        call().update_mask(allowed)
