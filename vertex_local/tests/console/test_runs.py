"""Pages of runs: the table, a run, a task, and the comparison."""

import json

import pytest

from vertex_local.api.routes import Call
from vertex_local.console import dag, lists
from vertex_local.errors import ApiError
from vertex_local.pipelines import journal
from vertex_local.pipelines import resource as pipelines
from vertex_local.tests.support.console_records import (
    BAD,
    FACTS,
    PARENT,
    SPEC,
    add_job,
    add_model,
    add_run,
)

pytestmark = pytest.mark.fast

RUN = "/runs/p/l"


def rows(client, query=""):
    """Return the titles in the table, in their order."""
    html = client.get(f"/runs?{query}").text
    return [part.partition('"')[0] for part in html.split('aria-label="compare ')[1:]]


def compared(client, *run_ids):
    """Return the page that compares runs, with blanks for all white space."""
    names = "&".join(f"run{n}={PARENT}/pipelineJobs/{name}" for n, name in enumerate(run_ids))
    return " ".join(client.get(f"/compare?{names}").text.split())


@pytest.fixture
def some_runs(service):
    add_run(service, "good", **FACTS)
    add_run(service, "bad", **{**FACTS, "outcome": "gate-failed", "tone": "bad", "gain": -0.2})
    add_run(service, "best", **{**FACTS, "workload": "mnist", "gain": 0.3})
    add_run(service, "plain", state="FAILED")


def test_table_shows_the_outcome_and_not_the_state(client, some_runs):
    html = client.get("/runs").text
    assert '<td data-head="version">taxi@2</td>' in html
    assert "by hand" in html
    assert '<span class="sure good">+0.01 <small>' in html
    assert '<span class="pill bad">gate-failed</span>' in html
    assert '<span class="pill bad">failed</span>' in html  # of a pipeline that says no outcome
    assert "auc 0.95" in html
    assert "+0.01 <small>0.002 to 0.018</small>" in html
    assert "$1.25" in html
    assert "1 min 30 s" in html


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("sort=gain+desc", ["best", "good", "bad", "plain"]),
        ("sort=display_name+asc", ["bad", "best", "good", "plain"]),
        ("outcome=gate-failed", ["bad"]),
        ("workload=taxi&sort=display_name+asc", ["bad", "good"]),
        ("q=plai", ["plain"]),
        ("q=run%3Dbest", ["best"]),
        ("q=team%3Dvision+oo", ["good"]),
        ("q=%22%5C", []),
        ("q=%3D", []),
        *((f"page={page}", ["plain", "best", "bad", "good"]) for page in (0, 2, "9" * 20)),
    ],
)
def test_table_is_searched_filtered_and_sorted_by_its_address(client, some_runs, query, titles):
    assert rows(client, query) == titles


def test_an_interrupted_run_is_not_one_that_somebody_has_cancelled(client, service):
    name = add_run(service, "busy", state="CANCELLED")
    error = {"code": 1, "message": "interrupted: the service stopped"}
    service.store.update(name, lambda run: run.update(error=error))
    assert rows(client, "outcome=interrupted") == ["busy"]
    html = client.get(f"{RUN}/busy").text
    assert '<span class="pill off">interrupted</span>' in html


def test_table_has_pages_and_keeps_the_query(client, service):
    for number in range(60):
        add_run(service, f"run-{number:02}", **FACTS)
    html = client.get("/runs?q=run-&sort=display_name+asc").text
    assert "page 1 of 2" in html
    assert "q=run-" in html.partition('rel="next" href="')[2].partition('"')[0]
    assert rows(client, "q=run-&sort=display_name+asc&page=2") == [
        f"run-{n}" for n in range(50, 60)
    ]


def test_table_reads_only_the_records_that_it_shows(client, service):
    for number in range(120):
        add_run(service, f"run-{number:03}", **FACTS)
    statements = []
    with service.store.atomic() as connection:
        connection.set_trace_callback(statements.append)
    assert len(rows(client, "sort=gain+desc&page=2")) == lists.SIZE
    assert sum("SELECT body FROM resources" in text for text in statements) == lists.SIZE


def test_table_shows_the_settings_that_the_query_names(client, some_runs):
    html = client.get("/runs?show=train.epochs").text
    assert '<td data-head="train.epochs">5</td>' in html
    assert '<td data-head="train.seed">' not in html


def test_settings_have_their_exact_values_and_the_defaults(client, service):
    defaults = {"rate": 0.000123456, "on": True, "table": {"a": [1, "ü"]}, "workload": "taxi"}
    inputs = {"parameters": {key: {"defaultValue": value} for key, value in defaults.items()}}
    spec = {**SPEC, "root": {**SPEC["root"], "inputDefinitions": inputs}}
    for run_id, values in (("a", {}), ("b", {"rate": 0.000123457, "workload": "mnist"})):
        run = {"name": f"{PARENT}/pipelineJobs/{run_id}", "state": "PIPELINE_STATE_RUNNING"}
        run |= {"pipelineSpec": spec, "runtimeConfig": {"parameterValues": values}}
        service.store.insert(run["name"], {**run, "createTime": "2026-11-26T10:00:00Z"})
    html = client.get(f"{RUN}/a").text
    assert "<dt>rate</dt><dd>0.000123456</dd>" in html
    assert "<dt>on</dt><dd>true</dd>" in html
    assert "<dt>table.a</dt><dd>[1, &#34;ü&#34;]</dd>" in html
    html = compared(client, "a", "b")
    assert "<td>0.000123456</td><td>0.000123457</td>" in html
    assert "<td>on</td>" not in html
    assert rows(client, "workload=mnist") == ["b"]
    html = client.get("/runs?show=rate").text
    assert '<td data-head="rate">0.000123456</td>' in html


def test_an_unknown_order_is_an_error_that_names_the_known_ones(client):
    response = client.get("/runs?sort=colour")
    assert response.status_code == 400
    assert "has no field &#34;colour&#34;" in response.text


def test_page_of_a_run_has_the_verdict_its_reasons_and_the_report(client, some_runs):
    html = client.get(f"{RUN}/bad").text
    assert 'class="verdict bad"' in html
    assert "<li>better than version 1</li>" in html
    assert "hold taxi" in html
    assert "<dt>train.epochs</dt><dd>3</dd>" in html
    assert "run=bad" not in html  # a label that repeats the name
    report = client.get(f"{RUN}/bad/report")
    assert report.text == "<h1>The report</h1>"
    assert report.headers["Content-Security-Policy"].startswith("sandbox;")


def test_pages_that_the_report_links_to_are_those_of_its_folder(client, service, some_runs):
    folder = pipelines.KIND.folder_of(service, f"{PARENT}/pipelineJobs/bad")
    (folder / "examples" / "data").mkdir(parents=True)
    (folder / "examples" / "data" / "report.html").write_text("<h1>The data</h1>")
    (folder / "data.html").write_text("<h1>Beside it</h1>")
    (folder.parent / "secret.html").write_text("secret")

    assert "Beside it" in client.get(f"{RUN}/bad/data.html").text
    page = client.get(f"{RUN}/bad/examples/data/report.html")
    assert page.text == "<h1>The data</h1>"
    assert page.headers["Content-Security-Policy"].startswith("sandbox;")
    for path in ("examples/data/none.html", "a/..%2f../secret.html", "%2e%2e/x/../secret.html"):
        response = client.get(f"{RUN}/bad/{path}")
        assert response.status_code in (400, 404)
        assert "secret" not in response.text.replace("secret.html", "")


def test_links_of_a_report_to_the_console_are_of_its_present_port(client, service, some_runs):
    folder = pipelines.KIND.folder_of(service, f"{PARENT}/pipelineJobs/bad")
    links = ["http://127.0.0.1:1234/jobs/p/l/3", "http://127.0.0.1:6006/", "https://a.example/runs"]
    (folder / "report.html").write_text("".join(f'<a href="{link}">' for link in links))
    page = client.get(f"{RUN}/bad/report").text
    assert page == f'<a href="/jobs/p/l/3"><a href="{links[1]}"><a href="{links[2]}">'


def test_page_of_a_run_without_facts_has_no_report(client, some_runs):
    assert "Report</a>" not in client.get(f"{RUN}/plain").text
    assert client.get(f"{RUN}/plain/report").status_code == 404


def test_page_of_a_task_has_its_log_its_outputs_and_why_it_was_executed(client, some_runs):
    html = client.get(f"{RUN}/good/tasks/train").text
    assert "first line\n100 %\nlast &lt;line&gt;" in html
    assert "the pipeline does not let it use the cache" in html
    assert "<dt>auc</dt><dd>0.95</dd>" in html
    assert "<dt>rate</dt><dd>0.5</dd>" in html
    assert "<h2>Inputs" in html
    cached = client.get(f"{RUN}/good/tasks/prepare").text
    assert "an earlier run had the same inputs" in cached
    assert "<h2>Outputs" not in cached
    assert "<h2>Log" not in cached


def test_pages_link_to_what_exists(client, service, some_runs):
    """Not to a deleted job, a deleted model, or an artifact that has no file."""
    name = f"{PARENT}/pipelineJobs/good"
    model = {"resourceName": f"{PARENT}/models/taxi@2"}
    made = {"model": [{"name": "m", "uri": "http://x", "type": {}, "metadata": model}]}
    ended = {"id": 2, "state": "SUCCEEDED", "error": "", "note": "", "inputs": {}}
    resources = {"resources": [{"resourceUri": f"http://x/v1/{PARENT}/customJobs/good"}]}
    ended |= {"input_artifacts": {}, "outputs": {"gcp_resources": json.dumps(resources)}}
    uri = str(service.root / "page.html")
    page = {"name": "p", "uri": uri, "type": {}, "metadata": {}}
    artifacts = {**made, "page": [page], "odd": [{**page, "metadata": {"resourceName": {}}}]}
    events = journal.Journal(pipelines.KIND.folder_of(service, name))
    events.write("task_ended", **ended, output_artifacts=artifacts)
    pages, links = (
        (f"{RUN}/good", f"{RUN}/good/tasks/train"),
        ("/jobs/p/l/good", "/models/p/l/taxi"),
    )
    for path in pages:
        html = client.get(path).text
        assert not any(f'href="{link}"' in html for link in (*links, f"{pages[1]}/page"))
    add_job(service, "good")
    add_model(service, run_id="good")
    (service.root / "page.html").write_text("page")
    for path in pages:
        html = client.get(path).text
        assert all(f'href="{link}"' in html for link in links)
    assert f'href="{pages[1]}/page"' in html


def test_an_unfinished_task_links_to_the_job_that_it_has_created(client, service):
    name = add_run(service, "busy", state="RUNNING")
    add_job(service, "7")
    events = journal.Journal(pipelines.KIND.folder_of(service, name))
    named = {"name": "upload", "unique_name": "upload", "display_name": "", "key": "group/upload"}
    events.write("task_started", id=7, **named)
    for resource in ("operations/1", "customJobs/7"):
        events.write("task_created", id=7, resource=f"{PARENT}/{resource}")
    for path in (f"{RUN}/busy", f"{RUN}/busy/tasks/upload"):
        assert 'href="/jobs/p/l/7"' in client.get(path).text


def test_tasks_of_a_loop_are_named_by_their_items_and_drawn_as_the_worst(client, service):
    name = add_run(service, "loop", state="RUNNING")
    events = journal.Journal(pipelines.KIND.folder_of(service, name))
    for number, item in enumerate(("b<", {"c": 0})):
        scope = f"/condition/loop-iteration-{number}"
        events.write("iteration_started", scope=scope, item=item)
        named = {"id": 7 + number, "name": "upload", "unique_name": f"upload-{number}"}
        named |= {"display_name": "upload", "key": "group/upload", "scope": f"{scope}/inner"}
        events.write("task_started", **named)
        values = {"inputs": {"x": number}, "input_artifacts": {}}
        events.write("task_inputs", id=7 + number, **values)
    outputs = {"outputs": {}, "output_artifacts": {}}
    events.write("task_ended", id=7, state="FAILED", error="no", **values, **outputs)
    html = client.get(f"{RUN}/loop").text
    assert "upload-0</a><small> for b&lt;</small>" in html
    assert "upload-1</a><small> for {&#34;c&#34;: 0}</small>" in html
    assert '<g class="bad"><title>upload \N{MULTIPLICATION SIGN}2: failed</title>' in html
    html = client.get(f"{RUN}/loop/tasks/upload-1").text
    assert "</a> for {&#34;c&#34;: 0} ·" in html
    assert "<dt>x</dt><dd>1</dd>" in html


def test_artifacts_are_served_without_rights(client, service, some_runs):
    page = client.get(f"{RUN}/good/tasks/train/page")
    assert page.mimetype == "text/html"
    assert page.headers["Content-Security-Policy"].startswith("sandbox;")
    assert client.get(f"{RUN}/good/tasks/train/metrics").status_code == 404  # it has no file
    assert client.get(f"{RUN}/good/tasks/train/..").status_code in (400, 404)
    folder = pipelines.KIND.folder_of(service, f"{PARENT}/pipelineJobs/good")
    (folder / "metrics").write_bytes(b"\0\xff")
    binary = client.get(f"{RUN}/good/tasks/train/metrics")
    assert binary.mimetype == "application/octet-stream"  # which browsers save


def test_a_bad_run_marks_the_task_that_decided_and_orders_those_not_reached(client, service):
    name = add_run(service, "bad", **(FACTS | BAD))
    events = journal.Journal(pipelines.KIND.folder_of(service, name))
    for number, key, name in ((8, "/end", "later"), (7, "/prepare", "sooner")):
        named = {"name": key, "unique_name": name, "display_name": ""}
        events.write("task_not_triggered", id=number, key=key, **named)
    html = client.get(f"{RUN}/bad").text
    assert '<svg class="dag bad"' in html
    assert '<g class="bad"><title>train: succeeded' in html
    assert html.rindex("tasks/sooner") < html.rindex("tasks/later")


def test_graph_has_layers_and_the_shortest_set_of_edges():
    running = {"key": "/train", "state": "RUNNING"}
    drawing = dag.draw(SPEC, [running])
    rows = {node["name"]: node["y"] for node in drawing["nodes"]}
    assert sorted(rows, key=rows.__getitem__) == ["prepare", "train", "upload", "end"]
    assert len(drawing["edges"]) == 3  # train → end is implied by train → upload → end
    states = [node["task"] for node in drawing["nodes"] if node["name"] == "train"]
    assert states == [running]


def test_graph_tells_tasks_of_one_name_in_several_graphs_apart():
    leaf = {"componentRef": {"name": "say"}}
    nested = {"dag": {"tasks": {"say": leaf, "next": {**leaf, "dependentTasks": ["say"]}}}}
    tasks = {
        "first": {"componentRef": {"name": "nested"}},
        "second": {"componentRef": {"name": "nested-2"}, "dependentTasks": ["first"]},
        "say": {**leaf, "dependentTasks": ["second"], "taskInfo": {"name": "<the end>"}},
    }
    components = {"say": {}, "nested": nested, "nested-2": nested}
    spec = {"root": {"dag": {"tasks": tasks}}, "components": components}
    drawing = dag.draw(spec, [{"key": "nested-2/say", "state": "A"}, {"key": "/say", "state": "B"}])
    nodes = [
        (node["name"], (node["task"] or {}).get("state"))
        for node in sorted(drawing["nodes"], key=lambda node: node["y"])
    ]
    in_order = ["say", "next", "say", "next", "<the end>"]
    assert nodes == list(zip(in_order, [None, None, "A", None, "B"], strict=True))
    assert len(drawing["edges"]) == 4


@pytest.mark.parametrize(
    ("states", "worst"),
    [
        (["CANCELLED", "SUCCEEDED"], "CANCELLED"),
        (["RUNNING", "CANCELLED"], "RUNNING"),
        (["FAILED", "RUNNING"], "FAILED"),
    ],
)
def test_graph_has_the_worst_state_of_a_loop(states, worst):
    drawing = dag.draw(SPEC, [{"key": "/train", "state": state} for state in states])
    tasks = [node["task"] for node in drawing["nodes"] if node["name"] == "train"]
    assert tasks == [{"key": "/train", "state": worst}]


def test_graph_of_a_long_chain_is_drawn():
    tasks = {"t0": {"componentRef": {"name": "a"}}}
    for number in range(1, 1500):
        tasks[f"t{number}"] = {**tasks["t0"], "dependentTasks": [f"t{number - 1}"]}
    spec = {"root": {"dag": {"tasks": tasks}}, "components": {"a": {}}}
    assert len(dag.draw(spec, [])["edges"]) == 1499


def test_comparison_shows_what_differs(client, service, some_runs):
    add_job(service, "good")
    add_run(service, "worse", **{**FACTS, "value": 0.9, "gain": -0.04})
    html = compared(client, "good", "worse")
    assert "<td>train.epochs</td>" in html
    assert "<td>train.seed</td>" not in html
    assert "<td>gain</td><td>0.01</td><td>-0.04</td>" in html
    assert "<td>cost</td><td>$1.25</td><td>$1.25</td>" in html.partition("Times, counts")[2]
    assert 'class="line c0"' in html
    assert "train/metrics: latency" in html


@pytest.mark.parametrize("count", [1, 9])
def test_comparison_takes_two_to_eight_runs(client, count):
    names = "&".join(f"run{n}={PARENT}/pipelineJobs/{n}" for n in range(count))
    response = client.get(f"/compare?{names}")
    assert response.status_code == 400
    assert "mark 2 to 8" in response.text


def test_the_end_of_a_run_records_the_facts_of_its_summary(client, service):
    name = add_run(service, "night", **{**FACTS, "outcome": "held"})

    def begin(run):
        run.update(state="PIPELINE_STATE_RUNNING")
        del run["jobDetail"]

    service.store.update(name, begin)
    journal.Journal(pipelines.KIND.folder_of(service, name)).write(
        "pipeline_ended", state="SUCCEEDED", error=""
    )
    pipelines.KIND.record_end(service, name, {"state": "succeeded", "message": ""})

    assert rows(client, "outcome=held") == ["night"]
    context = pipelines.with_tasks(service, service.store.get(name))["jobDetail"]
    assert context["pipelineRunContext"]["metadata"]["outcome"] == "held"
    assert [task["taskName"] for task in context["taskDetails"]] == ["prepare", "train", "end"]


def test_facts_are_no_fields_of_the_api(service, some_runs):
    call = Call({"project": "p", "location": "l"}, {"filter": 'outcome="promoted"'})
    with pytest.raises(ApiError, match='has no field "outcome"'):
        pipelines.KIND.list(service, call)
