"""Links of README, CONTRIBUTING and docs point at files, headings and tests that exist."""

import re
from pathlib import Path

import pytest

from tools.pages import PAGES, ROOT, anchors_of, links_of

pytestmark = pytest.mark.fast
MAX_README_LINES = 150
RELIABILITY = ROOT / "docs" / "reliability.md"
each_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


@each_page
def test_links_lead_somewhere(page):
    broken = []
    for link in links_of(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_page = target.suffix == ".md"
        if not target.exists() or (anchor and is_page and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


def test_readme_links_to_every_page_of_docs():
    linked = {Path(link.partition("#")[0]) for link in links_of(ROOT / "README.md")}
    pages = {page.relative_to(ROOT) for page in PAGES if page.parent == ROOT / "docs"}
    assert pages <= linked


def test_each_promise_of_reliability_names_a_test_that_exists():
    promises = re.findall(r"^- (.+)$", RELIABILITY.read_text(), re.MULTILINE)
    missing = []
    for promise in promises:
        names = re.findall(r"`((?:vertex_local/)?tests/[^`:]+)(?:::([^`]+))?`", promise)
        missing += [] if names else [promise]
        missing += [
            f"{path}::{name}"
            for path, name in names
            if not (ROOT / path).exists()
            or (name and f"def {name}(" not in (ROOT / path).read_text())
        ]
    assert len(promises) > 50
    assert not missing


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= MAX_README_LINES
