"""The other pages, their forms, and what all pages have in common."""

import re
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from vertex_local.api.routes import Message
from vertex_local.console import web, words
from vertex_local.endpoints import forwarding
from vertex_local.endpoints.request_counts import RequestCounts
from vertex_local.machine.clock import timestamp
from vertex_local.pipelines import resource as pipelines
from vertex_local.tests.support.console_records import (
    BAD,
    BILLING_LABEL,
    FACTS,
    PARENT,
    TIME,
    add_batch,
    add_endpoint,
    add_job,
    add_model,
    add_run,
    add_schedule,
    add_study,
)

pytestmark = pytest.mark.fast

HOSTILE = "<script>alert('x')</script>\"&"
SECTIONS = ("runs", "jobs", "models", "endpoints", "schedules", "tuning", "batch")


def text_of(client, path):
    response = client.get(path)
    assert response.status_code == 200, response.text
    return response.text


def submit(client, path, **form):
    return client.post(path, data={"token": web.token_of(path), **form})


@pytest.mark.parametrize("section", SECTIONS)
def test_pages_of_an_empty_service(client, section):
    html = text_of(client, f"/{section}")
    assert re.search("no [a-z ]+ yet", html)
    assert f'<a href="/{section}" aria-current="page">' in html


def test_pages_escape_everything_and_run_only_their_own_script(client, service):
    name = add_model(service, run_id="night")
    hostile = {"displayName": HOSTILE, "labels": {HOSTILE: HOSTILE}}
    service.store.update(name, lambda record: record.update(hostile))
    job = {"displayName": HOSTILE, "state": HOSTILE, "createTime": TIME, "jobSpec": {}}
    error = {"error": {"message": HOSTILE}}
    for kind in ("pipelineJobs", "customJobs"):
        service.store.insert(f"{PARENT}/{kind}/5", {"name": f"{PARENT}/{kind}/5", **job, **error})
    deployed = {"id": HOSTILE, "displayName": HOSTILE, "model": name, "modelVersionId": "1"}
    endpoint = {"name": f"{PARENT}/endpoints/5", "createTime": "", "deployedModels": [deployed]}
    service.store.insert(endpoint["name"], endpoint)

    for section in ("runs", "jobs", "models", "endpoints"):
        resource_id = "taxi" if section == "models" else "5"
        for path in (f"/{section}", f"/{section}/p/l/{resource_id}"):
            response = client.get(path)
            html = response.text
            assert "alert('x')" not in html
            assert html.count("<script") == 1
            assert "&lt;script&gt;" in html
            policy = response.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; ")
            (nonce,) = re.findall('nonce="([^"]+)"', html)
            assert f"'nonce-{nonce}'" in policy


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2e-5, "0.00002"),
        (-2.608e-8, "-2.608·10⁻⁸"),
        (1234.56, "1,235"),
        (12345.6, "12,346"),
        (3.0, "3"),
    ],
)
def test_numbers_are_as_people_write_them(value, text):
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(64738667, "64.74M"), (-2.5e9, "-2.5B"), (3.2e13, "32,000B"), (999999.0, "999,999")],
)
def test_numbers_of_an_axis_are_short(value, text):
    assert words.short(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.84, "0.8 s"),
        (59.4, "59 s"),
        (59.7, "1 min 0 s"),
        (179.7, "3 min 0 s"),
        (7260.4, "2 h 1 min"),
        (86399.9, "1 d"),
    ],
)
def test_durations_are_rounded_before_they_are_divided(seconds, text):
    assert words.span(seconds) == text


def test_an_unknown_resource_is_a_page_that_says_so(client):
    response = client.get("/models/p/l/404")
    assert response.status_code == 404
    assert f"{PARENT}/models/404" in response.text


@pytest.mark.parametrize("path", ["/nothing", "/runs/p", "/schedules/p/l/13:pause"])
def test_an_unknown_address_is_a_page_for_browsers_only(client, path):
    response = client.get(path)
    assert response.status_code in (404, 501)
    assert "<h1>" in response.text
    response = client.get(path, headers={"Accept": "*/*"})
    assert response.json["error"]["code"] == response.status_code


def test_page_of_a_job_has_replicas_progress_and_the_log_of_one(client, service):
    add_job(service, "3")
    html = text_of(client, "/jobs/p/l/3?replica=workerpool1-0")
    assert "<b>250</b> steps/s" in html
    assert "<b>0.25</b> eval loss" in html
    assert '<td data-head="restarts">2</td>' in html
    assert '<td data-head="CPU">7.5 s</td>' in html
    assert '<td data-head="memory">512.0 MB</td>' in html
    assert "a warning" in html
    assert "worker started" in html
    assert "<h2>Log of worker/0</h2>" in html
    assert "&lt;started&gt;" in html.partition("<h2>Log")[0]  # the chief's last line
    assert 'aria-label="loss, 0.125 to 1"' in html
    assert "train-taxi" in text_of(client, "/jobs")


def test_pages_of_a_job_and_an_endpoint_link_to_the_run_that_made_them(client, service):
    run = service.store.get(add_run(service, "night", **FACTS))
    endpoint = add_endpoint(service, add_model(service, run_id="night"))
    for name, labels in ((add_job(service, "3"), run["labels"]), (endpoint, {"a_run": "night"})):
        service.store.update(name, lambda record, own=labels: record.update(labels=own))
    assert 'job 3 of <a href="/runs/p/l/night">' in text_of(client, "/jobs/p/l/3")
    assert 'by <a href="/runs/p/l/night">' in text_of(client, "/endpoints/p/l/9")


def test_page_of_a_tuning_job_has_the_best_trial_first(client, service):
    add_study(service)
    html = text_of(client, "/tuning/p/l/5")
    trials = re.findall(r"trial (\d)", html)
    assert trials == ["2", "1", "3"]
    assert html.count("best</span>") == 1
    assert 'aria-label="loss by trial, 0.2 to 0.5"' in html
    assert 'aria-label="loss of the best 2, 0.2 to 1"' in html
    assert '<td data-head="rate">0.002</td>' in html
    assert "3 of 4" in text_of(client, "/tuning")


def test_page_of_a_batch_prediction_has_its_files_counts_and_log(client, service):
    model = add_model(service, run_id="night")
    add_batch(service, model)
    html = text_of(client, "/batch/p/l/6")
    assert '<a href="/models/p/l/taxi">' in html
    for text in ("gs://b/rows-*.csv", "gs://b/predicted", "1200", "server &lt;started&gt;"):
        assert text in html
    service.store.delete(model)
    assert "predict-taxi" in text_of(client, "/batch/p/l/6")
    assert "1200 rows, 3 failed" in text_of(client, "/batch")


def test_page_of_a_model_has_its_versions_with_their_runs_and_evaluations(client, service):
    add_run(service, "night", **FACTS)
    model = add_model(service, run_id="night")
    add_endpoint(service, model)
    html = text_of(client, "/models/p/l/taxi")
    assert '<span class="pill stop">held</span> <time' in html
    assert html.count("by ann@desk: &lt;audit&gt;") == 1
    assert '<span class="pill good">promoted</span>' in html
    assert "</time>: promoted night</p>" in html
    assert "acme_default" not in html
    assert "[9Z held by" in html
    assert "<b>0.95</b> auRoc" in html
    assert 'by <a href="/runs/p/l/night">' in html
    assert "hold taxi" in html
    assert "version 2 with 100 % of the traffic" in html
    assert "<h2>Lineage" not in html
    (link,) = re.findall(r'href="(\?version=2)"', html)
    lineage = text_of(client, f"/models/p/l/taxi{link}").partition("<h2>Lineage")[2]
    assert '<a href="/jobs/p/l/night">' in lineage
    assert "/report.html</code>" in lineage
    assert client.get("/models/p/l/taxi?version=9").status_code == 404


def test_versions_of_a_model_are_in_pages_newest_first(client, service):
    name = add_model(service, run_id="night")
    [version] = service.store.list_kind("versions")[-1:]
    for number in range(3, 54):
        own = {"versionId": str(number), "name": f"{name}/versions/{number}", "versionAliases": []}
        service.store.insert(own["name"], version | own)
    html = text_of(client, "/models/p/l/taxi")
    numbers = re.findall(r"<h3><a [^>]*>Version (\d+)", html)
    assert numbers == [str(number) for number in range(53, 3, -1)]
    assert ">Version 3<" in text_of(client, "/models/p/l/taxi?page=2")


def sent_requests(service, monkeypatch):
    """Count ten requests, one of them an error, and one half an hour before."""
    now = [200.0]
    monkeypatch.setattr("vertex_local.endpoints.request_counts.time.time", lambda: now[0])
    counts = RequestCounts(now[0])
    counts.add(900.0, is_error=False)
    now[0] = 2000.0
    for milliseconds in range(10):
        counts.add(float(milliseconds), is_error=milliseconds == 9)
    service.running[forwarding.KEY] = SimpleNamespace(
        measured=lambda name, deployed_id, num_minutes: counts.measured(num_minutes), start=1.0
    )
    return counts


def test_first_page_has_what_serves_failed_waits_and_runs_next(client, service, monkeypatch):
    model = add_model(service, run_id="night")
    add_endpoint(service, model)
    add_schedule(service)
    add_job(service, "3")
    now = timestamp(datetime.now(UTC))
    for run_id, facts in (("night", FACTS), ("bad", FACTS | BAD)):
        service.store.update(add_run(service, run_id, **facts), lambda run: run.update(endTime=now))
    failed = {"state": "JOB_STATE_FAILED", "endTime": now, "error": {"message": "a\nno disk"}}
    service.store.update(f"{PARENT}/customJobs/3", lambda job: job.update(failed))
    html = text_of(client, "/")
    for text in (
        '<td data-head="errors">0</td>',
        ": promoted night",
        "too &lt;low&gt;",
        "no disk",
    ):
        assert text in html
    assert '<pre class="line">show it</pre>' in html
    assert "2099-01-01 03:00 UTC" in html
    assert "are free" in html
    assert re.search("Waits for approval <[^>]*>0<", html)

    waiting = {"labels": {"acme_state": "waiting", BILLING_LABEL: "b-night"}}
    service.store.update(f"{model}/versions/2", lambda version: version.update(waiting))
    sent_requests(service, monkeypatch)
    html = text_of(client, "/")
    assert "taxi</a>@2" in html
    assert "+0.01 <small>0.002 to 0.018</small></span> over the model before" in html
    assert '<span class="sure bad">1</span>' in html


def test_a_rejected_version_has_no_other_badge(client, service):
    name = add_model(service, run_id="night")
    labels = {"labels": {"acme_state": "rejected"}}
    service.store.update(f"{name}/versions/1", lambda version: version.update(labels))
    service.store.update(name, lambda model: model["aliases"].update(previous="1"))
    html = text_of(client, "/models/p/l/taxi")
    assert '<span class="pill stop">rejected</span>' in html
    assert ">previous</span>" not in html


@pytest.mark.parametrize(
    ("name", "text"),
    [("latency_ms_p50", "3 ms"), ("num_rows", "3"), ("requests_per_second", "3/s"), ("alms", "")],
)
def test_counts_and_measurements_have_units_by_their_names(name, text):
    assert words.measure(name, 3.0) == text


def test_a_log_begins_where_the_step_begins():
    kfp = '[KFP 1]: Got executor_input:\n{\n    "a": {\n    }\n}\n'
    assert words.own_log(f"{kfp}first\n{{\n}}\nlast") == (kfp, "first\n{\n}\nlast")
    assert words.own_log("pip fails") == ("", "pip fails")


def test_page_of_an_endpoint_has_rate_latency_and_errors(client, service, monkeypatch):
    add_endpoint(service, add_model(service, run_id="night"))
    counts = sent_requests(service, monkeypatch)
    html = text_of(client, "/endpoints/p/l/9")
    assert '<td data-head="requests/s">0.03846 <small>10 in all</small>' in html
    assert '<td data-head="median">4.95 ms</td>' in html
    assert '<td data-head="errors">1</td>' in html
    assert counts.measured(60)["num_requests"] == 11
    assert "&#34;miles&#34;: [1, 2]" in html  # the instance in golden.json
    assert "taxi-endpoint" in text_of(client, "/endpoints")


def test_form_of_an_endpoint_sends_the_instance_and_shows_the_prediction(
    client, service, monkeypatch
):
    add_endpoint(service, add_model(service, run_id="night"))
    sent = []

    def predict(service, name, message):
        sent.append((name, message.data))
        return Message(b'{"predictions": ["\\u00fc"]}')

    monkeypatch.setattr(forwarding, "predict", predict)
    page = submit(client, "/endpoints/p/l/9:predict", instance='{"fare": 3}')
    assert "&#34;predictions&#34;: [\n    &#34;ü&#34;" in page.text
    assert sent == [(f"{PARENT}/endpoints/9", b'{"instances": [{"fare": 3}]}')]
    page = submit(client, "/endpoints/p/l/9:predict", instance="{fare").text
    assert "This is not JSON" in page
    assert ">{fare</textarea>" in page
    assert "Try a prediction" in text_of(client, "/endpoints/p/l/9:predict")  # reloaded


def test_schedules_show_next_runs_last_outcomes_and_runs_by_hand(client, service):
    add_run(service, "by-hand", **FACTS)
    add_schedule(service)
    html = text_of(client, "/schedules")
    times = re.findall(r"2099-01-0\d 03:00", html)
    assert times == ["2099-01-01 03:00", "2099-01-02 03:00", "2099-01-03 03:00"]
    assert '<span class="pill good">promoted</span>' in html
    assert "0 by the clock, 1 by hand" in html


def test_buttons_pause_and_resume_a_schedule(client, service):
    name = add_schedule(service)
    for verb, state in (("pause", "PAUSED"), ("resume", "ACTIVE")):
        response = submit(client, f"/schedules/p/l/13:{verb}")
        assert (response.status_code, response.location) == (303, "/schedules")
        assert service.store.get(name)["state"] == state


@pytest.mark.parametrize(("verb", "state"), [("pause", "PAUSED"), ("resume", "ACTIVE")])
def test_a_button_of_an_older_page_changes_nothing(client, service, verb, state):
    name = add_schedule(service, state=state)
    assert submit(client, f"/schedules/p/l/13:{verb}").location == "/schedules"
    assert service.store.get(name)["state"] == state
    service.store.update(name, lambda schedule: schedule.update(state="COMPLETED"))
    response = submit(client, f"/schedules/p/l/13:{verb}")
    assert response.status_code == 400
    page = response.text
    assert "is COMPLETED, not " in page
    assert '<a href="/schedules">The present state</a>' in page
    service.store.delete(name)
    page = submit(client, "/schedules/p/l/13:run").text
    assert "is not found" in page
    assert '<a href="/schedules">The present state</a>' in page


def test_run_now_starts_a_run_of_the_schedule(client, service, monkeypatch):
    name = add_schedule(service)
    launched = []
    monkeypatch.setattr(pipelines, "require_kfp", lambda: None)
    monkeypatch.setattr(
        pipelines, "plan", lambda service, body: {"pipelineSpec": body["pipelineSpec"]}
    )
    monkeypatch.setattr(pipelines, "launch", lambda service, job: launched.append(job))
    monkeypatch.setattr(service.clock, "now", lambda: datetime(2026, 11, 27, tzinfo=UTC))
    response = submit(client, "/schedules/p/l/13:run")
    assert submit(client, "/schedules/p/l/13:run").location == response.location  # twice clicked
    (job,) = launched
    assert response.location == f"/runs/p/l/{job['name'].rpartition('/')[2]}"
    assert service.store.get(job["name"])["scheduleName"] == name
    assert "0 by the clock, 1 by hand" in text_of(client, "/schedules")


@pytest.mark.parametrize(
    ("section", "kind", "state"),
    [
        ("runs", "pipelineJobs", "PIPELINE_STATE_RUNNING"),
        ("jobs", "customJobs", "JOB_STATE_RUNNING"),
        ("tuning", "hyperparameterTuningJobs", "JOB_STATE_RUNNING"),
        ("batch", "batchPredictionJobs", "JOB_STATE_RUNNING"),
    ],
)
def test_button_cancels(client, service, section, kind, state):
    name = f"{PARENT}/{kind}/5"
    service.store.insert(name, {"name": name, "state": state, "createTime": TIME})
    assert submit(client, f"/{section}/p/l/5:cancel").location == f"/{section}/p/l/5"
    assert service.store.get(name)["state"].endswith("CANCELLING")


def test_form_without_the_token_of_its_page_changes_nothing(client, service):
    name = add_schedule(service)
    other = web.token_of("/schedules/p/l/14:pause")
    for form in ({}, {"token": ""}, {"token": other}, {"token": "é"}):
        response = client.post("/schedules/p/l/13:pause", data=form)
        assert response.status_code == 403
        assert "reload the page" in response.text
    path = "/schedules/p/l/13:pause"
    form = {"token": web.token_of(path)}
    for headers in ({"Origin": "http://evil"}, {"Origin": "null"}, {"Host": "evil"}):
        assert client.post(path, data=form, headers=headers).status_code == 403
    assert client.get(path).status_code in (404, 405, 501)
    assert service.store.get(name)["state"] == "ACTIVE"
