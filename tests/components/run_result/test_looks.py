"""The pages as Chromium draws them, at the width of a desktop and of a phone."""

from pathlib import Path

import pytest

from components.evaluate.report import render_report
from components.evaluate.thresholds import Judgement
from components.run_result.report.content import read_content
from components.run_result.report.page import run_page
from components.run_result.summary import summarize
from tests.support.data.report_files import a_number, replicas, run_with_files, two_classes
from tests.support.looks import MIN_FONT_PIXELS, all_measured
from vertex_local.tests.support.browser import CHROMIUM, SCHEMES, WIDTHS


def page_of_run(evaluation: dict, folder: Path) -> str:
    job = run_with_files(folder, evaluation=evaluation)
    return run_page(read_content(job, summarize(job), replicas=[replicas()], folder=folder))


def page_of_evaluation(evaluation: dict) -> str:
    return render_report({"workload": "taxi", **evaluation}, Judgement(is_passed=False, reasons=()))


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_everything_is_in_sight_and_has_contrast_at_both_widths(tmp_path, scheme):
    classes, number = two_classes(), a_number()
    classes["baseline"] = {"name": "linear model", "metrics": classes["metrics"]}
    pages = {
        "run-classes": page_of_run(classes, tmp_path / "classes"),
        "run-number": page_of_run(number, tmp_path / "number"),
        "number": page_of_evaluation(number),
        "classes": page_of_evaluation(classes),
        "many": page_of_evaluation({**classes, "mistakes": 12 * classes["mistakes"]}),
    }

    found = all_measured(pages, tmp_path, scheme)

    for name, measures in found.items():
        assert [one["width"] for one in measures] == list(WIDTHS)
        for one in measures:
            assert one["scroll"] <= one["width"], (name, one["wide"])
            assert one["wide"] == [], name
            assert one["cut"] == [], name
            assert one["scrolling"] == [], name
            assert one["pale"] == [], name
            assert one["texts"] > 30
            assert one["least"] >= MIN_FONT_PIXELS
    # Many mistakes add nothing to the height of a page, whose parts are folded at first.
    assert found["classes"][0]["height"] == found["many"][0]["height"]
