"""Every output on a page is what commands above it print; `make pictures` prints it again."""

import re

import pytest

from tools.outputs import as_shown, entries, is_like, outputs_of
from tools.pages import PAGES, ROOT
from tools.pictures import lines_of

pytestmark = pytest.mark.fast

ALL_PAGES = [*PAGES, *(ROOT / "examples").rglob("*.md"), *(ROOT / "vertex_local").glob("*.md")]
FENCE = re.compile(r"^ *```(\w*)\n.*?^ *```$", re.MULTILINE | re.DOTALL)
MADE = {"sh", "python", "yaml", "mermaid"}  # read by test_commands.py, or nobody's output
PRINTED = """\
cars-20261128-152705-5c70: 1 chief (single)
verdict           passed: rmse 3,031.8 is 111.0680 better than that of a linear model
data              3,000 rows
                  split by sold_on
data report       /cars
"""


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_an_output_has_the_commands_that_print_it(page):
    languages = FENCE.findall(page.read_text())
    outputs = outputs_of(page) if page in PAGES else []
    assert set(languages) <= {*MADE, "text"}, "a block without a language"
    assert len(outputs) == languages.count("text")
    assert all(output.num_shown and output.commands for output in outputs)


def test_entries_are_chosen_by_their_first_words_and_have_the_lines_below():
    chosen = entries(PRINTED, ("verdict", "data"))
    assert chosen.splitlines() == PRINTED.splitlines()[1:4]


@pytest.mark.parametrize(
    ("shown", "is_same"),
    [
        ("verdict  passed: rmse 12 is 3.4e-05\n   worse than that of a linear model", True),
        ("verdict  passed: rmse 12 is … linear model", True),
        ("verdict  failed: rmse 12 is 3.4 better than that of a linear model", False),
        ("verdict  passed: rmse 12 is 3.4 better than a linear model", False),
        ("verdict  passed: rmse 12", False),
    ],
)
def test_numbers_of_an_output_may_differ_and_words_may_not(shown, is_same):
    assert is_like(shown, entries(PRINTED, ("verdict",))) is is_same


def test_a_duration_at_the_end_of_a_line_may_be_missing():
    assert is_like("data  wrong\n  no such column", "data  wrong   0.1 s\n  no such column")


def test_a_picture_has_the_lines_that_stay_on_a_terminal():
    progress = "\x1b[?25l\r\x1b[2K\x1b[32mx\x1b[0m train\n  step 1"
    erased = "\r\x1b[2K\x1b[1A\x1b[2K  \x1b[32mv\x1b[0m train   2 s\n\x1b[?25h\r\nverdict\n"
    assert lines_of(f"run\r\n{progress}{erased}") == [
        "run",
        "  \x1b[32mv\x1b[0m train   2 s",
        "",
        "verdict",
        "",
    ]


def test_a_long_field_is_wrapped_and_a_long_row_cut():
    field = as_shown("verdict   passed: " + "word " * 30)
    assert [len(line) - len(line.lstrip()) for line in field.splitlines()] == [0, 10]
    row = as_shown("1  2026-11-28  ann@desk  " + "word " * 30)
    assert row.count("\n") == 1
    assert row.endswith("word …\n")
    assert is_like(row, "1  2026-11-28  ann@desk  " + "word " * 30)
