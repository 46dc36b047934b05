import json

import pyarrow as pa
import pytest

from components.prepare_examples.statistics.states import new_statistic
from components.run_result.report.content import read_content
from components.run_result.report.page import DATA_FILE, REPORT_FILE, write_report
from components.run_result.summary import summarize
from tests.support.data.report_files import run_with_files

ANOMALY = {"severity": "warning", "split": "train", "feature": "paid", "reason": "is odd"}


@pytest.fixture
def job(tmp_path):
    """The PipelineJob of a run with complete statistics; the champion's lack a value."""
    job = run_with_files(tmp_path, evaluation=None)
    for folder, values in (("examples", ["Cash", "Card"] * 50), ("champion", ["Cash"] * 100)):
        statistic = new_statistic("text")
        statistic.add(pa.array(values))
        train = {"num_examples": 100, "features": {"paid": statistic.summary()}}
        content = {"workload": "taxi", "splits": {"train": train}}
        (tmp_path / folder / "statistics.json").write_text(json.dumps(content))
    manifest = {"workload": "taxi", "split_rule": "by a hash"}
    (tmp_path / "examples" / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "examples" / "anomalies.json").write_text(json.dumps({"anomalies": [ANOMALY]}))
    return job


def test_the_report_of_a_run_links_to_its_data_beside_the_champions(tmp_path, job):
    content = read_content(job, summarize(job), replicas=[], folder=tmp_path)
    write_report(content, tmp_path / "run")

    page = (tmp_path / "run" / DATA_FILE).read_text()
    assert "<p>Since champion: Card: 0 → 50 %</p>" in page
    assert '<small class="bad">drift, PSI ' in page
    assert "drifting first" in page
    assert "Split by a hash" in page
    assert "is odd" in page
    assert f'href="{DATA_FILE}"' in (tmp_path / "run" / REPORT_FILE).read_text()


def test_without_a_manifest_there_is_no_page_of_the_data_and_no_link(tmp_path, job):
    (tmp_path / "examples" / "manifest.json").unlink()
    write_report(read_content(job, summarize(job), replicas=[], folder=tmp_path), tmp_path / "run")

    assert not (tmp_path / "run" / DATA_FILE).exists()
    assert DATA_FILE not in (tmp_path / "run" / REPORT_FILE).read_text()
