"""The wheels of both distributions: the same bytes each time, with what an index shows."""

import zipfile

import pytest
from packaging.metadata import Metadata

from tools.wheels import SERVICE, build, with_links

pytestmark = pytest.mark.processes
URL = "https://example.com/owner/name"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Build both wheels twice, in folders of other names and ages."""
    places = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    return [build(place / "dist", url=URL, work=place / "work") for place in places]


def test_two_builds_have_the_same_bytes(wheels):
    first, second = wheels
    assert [path.name.partition("-")[0] for path in first] == ["trainyard_pipelines", SERVICE]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_an_index_can_show_them(wheels):
    for path in wheels[0]:
        with zipfile.ZipFile(path) as wheel:
            [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
            metadata = Metadata.from_email(wheel.read(name), validate=True)
            assert any(name.endswith("/licenses/LICENSE") for name in wheel.namelist())
        assert metadata.description.startswith("# ")
        assert metadata.description_content_type == "text/markdown"
        assert metadata.license_expression == "Apache-2.0"
        assert "Environment :: Console" in metadata.classifiers
        assert metadata.project_urls == {"Repository": URL}


@pytest.mark.fast
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (URL, f"[a]({URL}/blob/main/vertex_local/A.md#b) ![p]({URL}/raw/main/p.png) [c](#c)"),
        ("", "a  [c](#c)"),
    ],
)
def test_links_lead_to_the_repository(url, shown):
    text = "[a](A.md#b) ![p](../p.png) [c](#c)"
    assert with_links(text, url=url, folder=SERVICE) == shown
