"""The pages as Chromium draws them, at the width of a desktop and of a phone."""

from pathlib import Path

import pytest

from components.evaluate.report import render_report
from components.evaluate.thresholds import Judgement
from components.shared.run_report.content import read_content
from components.shared.run_report.page import render
from components.shared.run_summary.summary import summarize
from tests.support.data.report_files import a_number, replicas, run_with_files, two_classes
from tests.support.looks import MIN_FONT_PIXELS, measured
from vertex_local.tests.support.browser import CHROMIUM, SCHEMES, WIDTHS


def page_of_run(evaluation: dict, folder: Path) -> str:
    job = run_with_files(folder, evaluation=evaluation)
    return render(read_content(job, summarize(job), replicas=[replicas()], folder=folder))


def page_of_evaluation(evaluation: dict, _: Path) -> str:
    return render_report({"workload": "taxi", **evaluation}, Judgement(is_passed=False, reasons=()))


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("draw", [page_of_run, page_of_evaluation], ids=["run", "evaluation"])
@pytest.mark.parametrize("evaluation", [two_classes(), a_number()], ids=["classes", "number"])
def test_everything_is_in_sight_and_has_contrast_at_both_widths(tmp_path, evaluation, draw, scheme):
    page = draw(evaluation, tmp_path)

    found = measured(page, tmp_path, scheme)

    assert [one["width"] for one in found] == list(WIDTHS)
    for one in found:
        assert one["scroll"] <= one["width"], one["wide"]
        assert one["wide"] == []
        assert one["cut"] == []
        assert one["pale"] == []
        assert one["texts"] > 30
        assert one["least"] >= MIN_FONT_PIXELS


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_many_mistakes_add_little_to_the_height_of_a_page(tmp_path):
    few, evaluation = two_classes(), two_classes()
    evaluation["mistakes"] = 12 * evaluation["mistakes"]
    pages = [page_of_evaluation(one, tmp_path) for one in (few, evaluation)]
    heights = [measured(page, tmp_path, "light")[0]["height"] for page in pages]

    assert heights[0] == heights[1]
