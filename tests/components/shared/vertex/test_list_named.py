"""Search by display name with a server that records the filters it gets."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from components.endpoint.ensure import find_endpoint
from components.model_version.registry import find_model
from components.shared.vertex.api import VertexApi
from vertex_local.tests.support.http_server import Handler, serving

pytestmark = pytest.mark.fast

NAMES = ["plain", 'a" OR display_name="plain', "back\\slash", 'quo"te']
FILTERS = {"plain": 'display_name="plain"'}


@pytest.mark.parametrize("name", [*NAMES, 'no"ne'])
def test_a_name_of_any_characters_finds_its_own_resource_only(name):
    filters = []

    class Listing(Handler):
        def do_GET(self) -> None:
            filters.append(parse_qs(urlsplit(self.path).query).get("filter", [""])[0])
            collection = urlsplit(self.path).path.rpartition("/")[2]
            found = [
                {"name": f"projects/p/locations/l/{collection}/{number}", "displayName": one}
                for number, one in enumerate(NAMES)
                if not filters[-1] or filters[-1] == f'display_name="{one}"'
            ]
            body = {collection: [{**one, "createTime": "1"} for one in found]}
            self.respond(200, json.dumps(body).encode())

    with serving(Listing) as host:
        api = VertexApi(f"http://{host}", "", "p", "l", requests.Session())
        endpoint = find_endpoint(api, name)
        model = find_model(api, name)

    assert set(filters) == {FILTERS.get(name, "")}
    assert (endpoint or {}).get("displayName", "") == (name if name in NAMES else "")
    expected = f"projects/p/locations/l/models/{NAMES.index(name)}" if name in NAMES else ""
    assert model == expected
