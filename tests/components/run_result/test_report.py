"""The report of a run: what it draws, and from which files."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from components.run_result.report.content import Content, read_content, training_cost
from components.run_result.report.facts import facts_of
from components.run_result.report.page import DATA_FILE, REPORT_FILE, run_page, write_report
from components.run_result.summary import summarize
from components.shared.pages.charts.plot import WIDTH
from tests.support.data import run_records
from tests.support.data.report_files import (
    HOSTILE,
    a_number,
    replicas,
    run_with_files,
    statistics,
    ten_classes,
    two_classes,
)

pytestmark = pytest.mark.fast
MAX_BYTES = 3_000_000
VOID = {"meta", "img", "br"}


class Structure(HTMLParser):
    """Checks that tags are balanced; collects names, addresses and section titles."""

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.sources: list[str] = []
        self.links: list[str] = []
        self.titles: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.links += [str(v) for name, v in attributes if name == "href"]
        self.sources += [str(v) for name, v in attributes if name == "src"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.titles.append(data)


def page_of(folder: Path, evaluation: dict | None, **options) -> str:
    job = run_with_files(folder, evaluation=evaluation, **options)
    return run_page(read_content(job, summarize(job), replicas=[replicas()], folder=folder))


MISTAKES = "Surest mistakes"
COMMON = ["Data", "Learning curves", "Tasks", "Cluster", "Settings", "What to do next"]


@pytest.mark.parametrize(
    ("evaluation", "titles"),
    [
        pytest.param(
            two_classes(),
            ["Metrics of the test split", "Slices", "Curves", "Confusion matrix", MISTAKES],
            id="two-classes",
        ),
        pytest.param(
            ten_classes(),
            ["Metrics of the test split", "Confusion matrix", MISTAKES],
            id="images",
        ),
        pytest.param(
            a_number(), ["Metrics of the test split", "Predictions and residuals"], id="number"
        ),
        pytest.param(None, [], id="no-evaluation"),
    ],
)
def test_a_report_has_the_sections_that_the_run_has_facts_for(tmp_path, evaluation, titles):
    page = page_of(tmp_path, evaluation)
    found = Structure(page)

    assert found.titles == [*titles, *COMMON]
    assert len(page.encode()) < MAX_BYTES


def test_a_page_needs_nothing_from_elsewhere_and_runs_no_foreign_input(tmp_path):
    page = page_of(tmp_path, {**two_classes(), "mistakes": ten_classes()["mistakes"]})
    found = Structure(page)

    assert HOSTILE not in page
    assert not found.tags & {"script", "link", "iframe", "object", "form"}
    assert {one.partition(",")[0] for one in found.sources} == {"data:image/png;base64"}
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_a_mistake_shows_a_picture_only_if_it_is_one(tmp_path):
    mistakes = [{"index": 1, "label": "a", "predicted": "b", "image": "https://x.example/a.png"}]
    found = Structure(page_of(tmp_path, {**ten_classes(), "mistakes": mistakes}))

    assert found.sources == []


def test_the_metrics_are_beside_those_of_the_champion(tmp_path):
    page = page_of(tmp_path, two_classes())
    row = re.search(r'<th scope="row">auc</th>(.*?)</tr>', page)

    assert "champion @3" in page
    assert "0.0012 better than the champion" in page  # auc
    assert "0.0046 better than the champion" in page  # loss, of which less is better
    assert row
    assert re.findall(r"[\d.]+", re.sub("<[^>]*>", " ", row[1])) == ["0.9461", "0.9449", "0.9400"]
    assert ">limit</th>" in page
    assert f"tensorboard --logdir {tmp_path / 'base'}/logs" in page
    assert page.count("2026-11-22 10:00:00 UTC") == 2  # below the title, and in the settings
    assert "<td>500 MB</td>" in page  # as in the console: of a million bytes
    gain = {"name": "gain", "limit": 0.0, "ok": True, "text": "better"}
    assert ">limit</th>" not in page_of(tmp_path / "second", {**two_classes(), "checks": [gain]})


def test_a_large_metric_fits_into_its_tile(tmp_path):
    page = page_of(tmp_path, {**two_classes(), "metrics": {"loss": 4440945863.0}})
    assert "<b>4.441B</b>loss" in page
    assert ">4,440,945,863<" in page  # in the table


def test_without_a_champion_slices_show_the_metric_itself(tmp_path):
    page = page_of(tmp_path, two_classes(has_champion=False))

    num_tasks = page.partition('id="tasks"')[2].partition("</section>")[0].count('class="bar "')
    assert num_tasks == 4
    # slices, splits, features (one has drifted)
    assert page.count('class="bar "') == 5 + 3 + 1 + num_tasks
    assert "worse</b>" not in page
    assert "baseline linear" in page


GOOGLE = "https://console.cloud.google.com"


def linked(folder: Path, report: str) -> list[str]:
    """Return the addresses that the report of a run links to, beside its own sections."""
    job = run_with_files(folder, evaluation=two_classes())
    for task in job["jobDetail"]["taskDetails"]:
        values = task.get("execution", {}).get("metadata", {})
        if task["taskName"] == "prepare-examples":
            [examples] = task["outputs"]["examples"]["artifacts"]
            examples |= {"uri": report, "metadata": {"report": "report.html"}}
        if task["taskName"] == "train":
            task |= {"taskUniqueName": "train", "taskName": "train"}
            uri = "https://h/v1/projects/p/locations/l/customJobs/77"
            values["output:gcp_resources"] = json.dumps({"resources": [{"resourceUri": uri}]})
        if task["taskName"] == "evaluate":
            values["output:champion_version"] = "projects/p/locations/l/models/6@2"
        if task["taskName"] == "release-model":
            values = {"output:Output": "projects/p/locations/l/models/5@3"}
            task |= {"state": "SUCCEEDED", "execution": {"metadata": values}}
    content = read_content(job, summarize(job), replicas=[], folder=folder / "taxi-1")
    links = Structure(run_page(content)).links
    return [address for address in links if not address.startswith("#")]


def test_a_report_links_to_the_pages_that_have_more(tmp_path, monkeypatch):
    monkeypatch.setenv("VERTEX_EMULATOR_HOST", "127.0.0.1:8085")
    examples = f"{tmp_path}/taxi-0/prepare-examples/a b"
    assert linked(tmp_path, examples) == [
        "http://127.0.0.1:8085/runs/p/l/taxi-1",
        "http://127.0.0.1:8085/jobs/p/l/77",
        "../taxi-0/prepare-examples/a%20b/report.html",
        "http://127.0.0.1:8085/models/p/l/5",
        "http://127.0.0.1:8085/models/p/l/6",
        "http://127.0.0.1:8085/runs/p/l/taxi-1/tasks/train",
    ]


def test_on_vertex_ai_the_links_are_to_googles_console_and_the_bucket(tmp_path, monkeypatch):
    monkeypatch.delenv("VERTEX_EMULATOR_HOST", raising=False)
    assert linked(tmp_path, "gs://b/x") == [
        f"{GOOGLE}/vertex-ai/locations/l/pipelines/runs/taxi-1?project=p",
        f"{GOOGLE}/vertex-ai/locations/l/training/77?project=p",
        "https://storage.cloud.google.com/b/x/report.html",
        f"{GOOGLE}/vertex-ai/models/locations/l/models/5/versions/3?project=p",
        f"{GOOGLE}/vertex-ai/models/locations/l/models/6/versions/2?project=p",
    ]


def changes_of_data(*, shift: int) -> str:
    """Return what the report of a run says of the changes since the champion's examples."""
    data = {"statistics": statistics(shift=shift), "champion_statistics": statistics()}
    page = run_page(Content(summary=summarize(run_records.job()), **data))
    return page.partition("compared with the champion's")[2].partition("</section>")[0]


def test_a_small_drift_has_a_short_bar_and_is_folded():
    small, large = (changes_of_data(shift=by) for by in (2, 50))
    widths = [float(width) for width in re.findall(r'<rect x="4.0" y="4" width="([^"]*)"', small)]

    assert max(widths) < WIDTH / 10
    assert "Axis 0 to 0.25" in small
    opened = [re.sub("(?s)<details>.*?</details>", "", page) for page in (small, large)]
    assert ["<table" in page for page in opened] == [False, True]


@pytest.mark.parametrize("champion", [None, {"version": "2"}], ids=["first", "another"])
def test_a_rollback_is_proposed_only_if_there_is_a_version_to_go_back_to(champion, tmp_path):
    record = run_records.job(run_records.task("release-model", Output=run_records.VERSION))
    content = read_content(record, summarize(record), replicas=[], folder=tmp_path)
    page = run_page(replace(content, evaluation={"champion": champion}))

    assert ("trainyard models rollback mnist" in page) is bool(champion)
    assert "trainyard endpoints deploy mnist@3" in page


def test_each_task_has_its_time_or_the_reason_for_having_none(tmp_path):
    page = page_of(tmp_path, None)
    rows = dict(re.findall(r'<th scope="row">([a-z-]+)</th><td>.*?</td><td>(.*?)</td>', page))

    assert rows["train"] == "59.0 s"
    assert rows["prepare-examples"] == "cached"


def test_an_old_run_shows_the_metrics_of_its_summary(tmp_path):
    job = run_with_files(tmp_path, evaluation=None)
    for task in job["jobDetail"]["taskDetails"]:
        if task["taskName"] == "evaluate":
            metrics = {"accuracy": 0.4321, "num_examples": 10.0}
            task["outputs"]["metrics"] = {"artifacts": [{"uri": "/m", "metadata": metrics}]}
            task["execution"]["metadata"]["output:reasons"] = "too <low>"
    page = run_page(read_content(job, summarize(job), replicas=[], folder=tmp_path))

    assert "0.4321" in page
    assert "too &lt;low&gt;" in page
    assert "most memory" not in page


def content_of(job, folder):
    return read_content(job, summarize(job), replicas=[], folder=folder)


def test_damaged_files_are_left_out(tmp_path, caplog):
    job = run_with_files(tmp_path, evaluation=two_classes())
    (tmp_path / "evaluation.json").write_text('{"metrics": ')
    (tmp_path / "examples" / "statistics.json").write_text("[]")
    content = content_of(job, tmp_path)

    assert (content.evaluation, content.statistics) == ({}, {})
    assert len(content.progress) == 25  # all but the line that is cut
    assert "evaluation.json is left out of the report" in caplog.text
    assert "Learning curves" in run_page(content)


def test_facts_of_a_run_have_what_decided_and_how_it_is_shown(tmp_path):
    job = run_with_files(tmp_path, evaluation=two_classes())
    content = content_of(job, tmp_path)
    facts = facts_of(content)

    assert (facts["outcome"], facts["tone"]) == (summarize(job).outcome, "good")
    assert (facts["metric"], facts["gain"]) == ("auc", 0.0012)
    assert (facts["gain_low"], facts["gain_high"]) == (0.0002, 0.0021)
    assert facts["report"] == REPORT_FILE
    assert all(isinstance(value, str | float | int) for value in facts.values())
    content.evaluation["gain"]["low"] = math.nan  # which Vertex AI's JSON has not
    assert "gain_low" not in facts_of(content)
    first = replace(content, evaluation={**content.evaluation, "champion": None})
    assert facts_of(first)["baseline_gain"] == 0.0012
    assert "gain" not in facts_of(first)
    stopped = replace(
        content, summary=replace(content.summary, stop="held: by ann", reasons=("ok",))
    )
    assert facts_of(stopped)["reasons"] == "held: by ann\nok"
    held = replace(stopped, summary=replace(stopped.summary, outcome="held"))
    assert (facts_of(held)["tone"], facts_of(held)["why"]) == ("stop", "held: by ann")


def test_a_run_that_failed_before_it_began_has_a_report_and_facts_without_metrics(tmp_path):
    job = {"name": "projects/p/locations/l/pipelineJobs/m-1", "state": "PIPELINE_STATE_FAILED"}
    content = content_of(job, tmp_path)
    write_report(content, tmp_path)
    facts = facts_of(content)

    page = (tmp_path / REPORT_FILE).read_text()
    assert not (tmp_path / DATA_FILE).exists()
    assert "What to do next" in Structure(page).titles
    assert "trainyard runs resume m-1" in page
    assert (facts["outcome"], facts["tone"]) == ("failed", "bad")
    assert facts["next"].startswith("trainyard runs logs m-1\n")
    assert facts.keys() & {"metric", "value", "gain", "cost", "model", "commands"} == set()


def test_the_cost_of_a_training_is_its_time_on_the_machines(tmp_path):
    summary = summarize(run_with_files(tmp_path, evaluation=None))
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "date: 2026-01-01\nregion: r\nsource: s\nspot_share: 0.5\naccelerators: {}\n"
        "machines: {n1-standard-4: 3.6}\n"
    )
    shapes = {
        "on demand": {"strategy": "single", "machine": "n1-standard-4"},
        "spot": {"strategy": "single", "machine": "n1-standard-4", "spot": True},
        "no price": {"strategy": "single", "machine": "n1-standard-8"},
    }
    found = {
        name: training_cost(json.dumps(shape), summary, prices=prices)
        for name, shape in shapes.items()
    }

    assert found["on demand"].expected == pytest.approx(59 * 3.6 / 3600)
    assert found["spot"].expected == pytest.approx(59 * 1.8 / 3600)
    assert found["no price"] is None
    assert training_cost("no JSON", summary, prices=prices) is None
    assert training_cost("{}", summary, prices=tmp_path / "missing") is None
