"""The wheels of both distributions: the same bytes each time, with what an index shows."""

import os
import zipfile

import pytest
from packaging.metadata import Metadata

from tools.wheels import SERVICE, build, with_links

pytestmark = pytest.mark.processes
URL = "https://example.com/owner/name"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Build both wheels twice, in other folders and by users of another umask."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    built = build(first / "dist", url=URL, work=first / "work")
    mask = os.umask(0o077)
    again = build(second / "dist", url=URL, work=second / "work")
    os.umask(mask)
    assert not (first / "work" / SERVICE / "build").exists()
    return built, again


def test_two_builds_have_the_same_bytes(wheels):
    first, second = wheels
    assert len(first) == 2
    assert b"api/comments.json" in first[1].read_bytes()
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_an_index_can_show_them(wheels):
    for path in wheels[0]:
        with zipfile.ZipFile(path) as wheel:
            [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
            metadata = Metadata.from_email(wheel.read(name), validate=True)
        assert metadata.description.startswith("# ")
        assert metadata.description_content_type == "text/markdown"
        assert metadata.license_expression == "Apache-2.0"
        assert metadata.license_files == ["LICENSE"]
        assert metadata.project_urls == {"Repository": URL}


@pytest.mark.fast
def test_links_lead_to_the_repository():
    text = "[a](A.md#b) ![p](../p.png) [c](#c)"
    shown = f"[a]({URL}/blob/main/vertex_local/A.md#b) ![p]({URL}/raw/main/p.png) [c](#c)"
    assert with_links(text, url=URL, folder=SERVICE) == shown
    assert with_links(text, url="", folder=SERVICE) == "a  [c](#c)"
