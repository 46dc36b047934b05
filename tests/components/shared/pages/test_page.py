import re

import pytest

from components.shared.pages.formats import number
from components.shared.pages.page import TEMPLATES, fill

pytestmark = pytest.mark.fast
PARTS = TEMPLATES.get_template("shared/pages/parts.html").module


def section(title: str, body: str) -> str:
    return PARTS.section(title, caller=lambda: body)


def test_a_page_lists_its_contents_and_links_to_other_pages():
    titles = ["Data", "Tasks & times", "Tasks"]
    body = "".join(section(title, "<p>x</p>") for title in titles)
    page = fill("t", body, links=[("<data>", "a/b.html?x=1&y=2")])

    contents = re.findall(r'<a href="#([^"]*)">(.*?)</a>', page)
    assert contents == [
        ("data", "Data"),
        ("tasks---times", "Tasks &amp; times"),
        ("tasks", "Tasks"),
    ]
    assert all(f'<section id="{name}">' in page for name, _ in contents)
    assert '<a href="a/b.html?x=1&amp;y=2">&lt;data&gt;</a>' in page


def test_a_short_page_has_no_list_of_contents():
    assert "<nav" not in fill("t", section("Data", "<p>x</p>"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.898, "0.8980"),
        (2.05, "2.050"),
        (-12.25, "-12.25"),
        (150000.0, "150,000"),
        (1e-5, "0.00001"),
        (7, "7"),
        (1140, "1,140"),
        (None, "n/a"),
        (float("nan"), "n/a"),
        ("<b>", "<b>"),
    ],
)
def test_measured_numbers_have_four_digits_that_matter(value, text):
    assert number(value) == text
