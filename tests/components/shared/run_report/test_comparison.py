import pytest

from components.shared.run_report.comparison import render_comparison
from components.shared.run_report.content import read_content
from components.shared.run_report.sides import NO_ANSWERS, OTHER_EXAMPLES, changed_sides
from components.shared.run_summary.summary import summarize
from pipelines.runs.differences import compare
from tests.support.data.report_files import HOSTILE, run_with_files, ten_classes

pytestmark = pytest.mark.fast


def content(folder, predicted=(0, 1, 1, 0), labels=(0, 1, 0, 1), **options):
    evaluation = ten_classes()
    evaluation["mistakes"] = [{**one, "label": HOSTILE} for one in evaluation["mistakes"]]
    if predicted:
        evaluation["answers"] = {"labels": list(labels), "predicted": list(predicted)}
    job = run_with_files(folder, evaluation=evaluation, **options)
    return read_content(job, summarize(job), replicas=[])


def test_examples_that_changed_sides_are_counted_and_shown(tmp_path):
    first = content(tmp_path / "a", predicted=(0, 0, 0, 0))
    second = content(tmp_path / "b", predicted=(0, 1, 1, 0))
    sides = changed_sides(first, second)

    assert (sides.both_right, sides.only_first, sides.only_second, sides.both_wrong) == (1, 1, 1, 1)
    assert [one["index"] for one in sides.gained] == [1]
    assert [one["index"] for one in sides.lost] == [2]


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"predicted": ()}, NO_ANSWERS), ({"labels": (1, 1, 1, 1)}, OTHER_EXAMPLES)],
)
def test_runs_with_other_test_examples_are_not_compared_by_example(tmp_path, options, reason):
    assert changed_sides(content(tmp_path / "a"), content(tmp_path / "b", **options)) == reason


def test_the_page_compares_settings_curves_and_examples(tmp_path):
    first = content(tmp_path / "a", predicted=(0, 0, 0, 0), name="taxi-1")
    second = content(tmp_path / "b", name="taxi-2", slower=2.0)
    differences = [("train.epochs", 3, 5), ("data digest", "sha256:" + "a" * 64, HOSTILE)]
    page = render_comparison(first, second, differences=differences)

    assert HOSTILE not in page
    assert "<td>3</td><td>5</td>" in page
    assert "aaaaaaaaaaaaaaaa<" in page
    assert "A train" in page
    assert "B eval" in page
    assert "Only A is right on 1, only B on 1." in page
    assert page.count("<img") == 2


def test_equal_runs_have_no_differences(tmp_path):
    same = content(tmp_path)
    found = [(one.title, one.first, one.second) for one in compare(same.summary, same.summary)]

    assert "are the same" in render_comparison(same, same, differences=found)
