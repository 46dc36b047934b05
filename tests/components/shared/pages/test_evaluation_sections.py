"""The sections on an evaluation, which its own page and that of its run share."""

import re
from html import unescape

import pytest

from components.shared.pages.evaluation.errors import MAX_MATRIX
from components.shared.pages.evaluation.sections import evaluation_sections, marks_of
from tests.support.data.report_files import counted
from trainer.metrics.class_metrics import MAX_CONFUSION

pytestmark = pytest.mark.fast


def drawn(**evaluation) -> str:
    return evaluation_sections(evaluation, metrics={})


def cells_of(page: str) -> list[list[str]]:
    """Return the texts of the cells of each row of all tables."""
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    return [[unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t", row)] for row in rows]


def confused(labels: list[str], confusion: list[list[int]]) -> str:
    return drawn(labels=labels, **counted(confusion))


def test_a_class_has_recall_and_precision():
    rows = cells_of(confused(["cat", "<dog>", "owl"], [[3, 1, 0], [0, 2, 0], [0, 0, 0]]))
    assert ["cat", "4", "75.0 %", "100.0 %"] in rows
    assert ["<dog>", "2", "100.0 %", "66.7 %"] in rows
    assert ["owl", "0", "n/a", "n/a"] in rows


@pytest.mark.parametrize("size", [MAX_MATRIX, MAX_MATRIX + 1, MAX_CONFUSION + 1])
def test_many_classes_are_in_closed_parts(size):
    confusion = [
        [int(row == column) * 4 + (column == 0) for column in range(size)] for row in range(size)
    ]
    page = confused(list(map(str, range(size))), confusion)
    opened = re.sub("(?s)<details>.*?</details>", "", page)
    assert ('class="matrix"' in opened) == (size <= MAX_MATRIX)
    assert ('class="matrix"' in page) == (size <= MAX_CONFUSION)
    assert ["9", "5", "80.0 %", "100.0 %"] in cells_of(page)


def test_labels_have_shares_and_scores():
    row = {"label": "<b>", "share": 0.25, "precision": 0.5, "recall": None, "f1": 0.4, "auc": None}
    [head, cells] = cells_of(drawn(by_label=[row]))
    assert head == ["label", "share of the examples", "precision", "recall", "F1", "AUC"]
    assert cells == ["<b>", "25.0 %", "50.0 %", "n/a", "0.4000", "n/a"]


@pytest.mark.parametrize(
    ("num_mistakes", "text"),
    [(1, "1 in total; all"), (500, "500 in total; the 1 most confident"), (None, "")],
)
def test_the_mistakes_are_counted(num_mistakes, text):
    mistake = {"index": 1, "label": "a", "predicted": "b", "confidence": 0.75, "instance": {"x": 1}}
    page = drawn(mistakes=[mistake], num_mistakes=num_mistakes)
    assert text in page
    assert ("in total" in page) == (num_mistakes is not None)
    assert "75.0 %" in page


def test_the_picture_of_a_row_is_shown_beside_its_other_fields():
    instance = {"photo": {"b64": "iVBORw0KGgoAAA=="}, "note": {"b64": "AAAA"}, "rooms": 3}
    page = drawn(mistakes=[{"instance": instance}], num_mistakes=1)
    assert '<td><img src="data:image/png;base64,iVBORw0KGgoAAA==" alt="picture"></td>' in page
    assert page.count("<img") == 1
    [head, row] = cells_of(page)
    assert [*zip(head, row, strict=True)][-1] == ("rooms", "3")


def test_the_mistakes_are_folded_into_one_table():
    mistakes = [
        {"label": "a", "predicted": "<b>", "confidence": 0.75, "instance": {"x": 1.5e6, "y": 2}},
        {"label": "b", "predicted": "a", "confidence": 0.7, "instance": {"y": 3, "z": 1e-5}},
        {"label": "c", "predicted": "a", "confidence": 0.6, "instance": [1, 2]},
    ]
    page = drawn(mistakes=mistakes, num_mistakes=3)
    opened = re.sub("(?s)<details>.*?</details>", "", page)

    assert "<table" not in opened
    assert page.count("<table") == 1
    assert cells_of(page) == [
        ["label", "predicted", "", "x", "y", "z", "value"],
        ["a", "<b>", "75.0 %", "1,500,000", "2", "", ""],
        ["b", "a", "70.0 %", "", "3", "0.00001", ""],
        ["c", "a", "60.0 %", "", "", "", "1, 2"],
    ]


def test_a_time_of_a_mistake_is_a_date():
    mistake = {"label": "a", "predicted": "b", "instance": {"at": 1357000200, "n": 1357000200}}
    page = drawn(mistakes=[mistake], times=["at"])
    assert cells_of(page)[1][3:] == ["2013-01-01 00:30", "1357000200"]


def a_slice(value: str, candidate: float, **facts: object) -> dict:
    part = {"feature": "hour", "value": value, "num_examples": 9, "metric": "auc", "ok": True}
    return {**part, "candidate": candidate, "champion": None, "low": None, "high": None, **facts}


def of_slices(page: str) -> list[str]:
    return re.findall(r'<th scope="row">hour (\w+)', page)


def test_slices_are_sorted_by_what_is_worst_with_and_without_a_champion():
    plain = [a_slice("a", 0.9), a_slice("b", 0.7), a_slice("c", 0.8), a_slice("d", None)]
    assert of_slices(drawn(slices=plain)) == ["b", "c", "a", "d"]
    assert "champion" not in drawn(slices=plain)

    losses = [{**part, "metric": "rmse"} for part in plain]
    assert of_slices(drawn(slices=losses)) == ["a", "c", "b", "d"]

    compared = [
        a_slice("sure", 0.5, champion=0.4, low=0.05, high=0.15),
        a_slice("unsure", 0.9, champion=0.91, low=-0.04, high=0.02),
        a_slice("failed", 0.9, champion=0.905, low=-0.006, high=-0.004, ok=False),
    ]
    page = drawn(slices=compared)
    assert of_slices(page) == ["failed", "unsure", "sure"]
    assert re.findall(r'class="bar (\w*)"', page) == ["bad", "unsure", ""]


def test_of_many_slices_the_better_ones_are_folded_but_never_a_failure():
    failed = [a_slice(f"f{n}", 0.5, champion=0.9, low=-0.5, high=-0.3, ok=False) for n in range(20)]
    good = [a_slice(f"g{n}", 0.9, champion=0.8, low=0.05, high=0.15) for n in range(30)]
    page = drawn(slices=[*good, *failed])
    opened = re.sub("(?s)<details>.*?</details>", "", page)

    assert len(of_slices(opened)) == 20
    assert len(of_slices(page)) == 50
    assert "30 better slices" in page


def test_an_importance_that_may_be_zero_has_a_grey_bar():
    rows = [
        {"feature": "a", "metric": "auc", "loss": 0.2, "low": 0.1, "high": 0.3},
        {"feature": "b", "metric": "auc", "loss": 0.01, "low": -0.01, "high": 0.03},
    ]
    page = drawn(importance=rows)
    assert re.findall(r'class="bar (\w*)"', page) == ["", "unsure"]


def test_without_mistakes_the_page_says_so():
    page = drawn(mistakes=[], num_mistakes=0)
    assert "No mistakes" in page


def test_a_condition_that_chance_may_have_decided_has_no_tick():
    met = {"ok": True, "text": "met"}
    listed = [met, {**met, "sure": False, "text": "may be"}, {**met, "ok": False, "text": "bad"}]
    assert marks_of({"checks": listed}, is_passed=True, reasons=()) == [
        ("bad", "✗", "bad"),
        ("unsure", "≈", "may be"),
        ("good", "✓", "met"),
    ]
