"""`COVERAGE.md` against the routes and the API. `python …/test_coverage.py` writes it anew."""

import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from werkzeug.exceptions import HTTPException

import vertex_local
from vertex_local.app import Application
from vertex_local.server import MODULES
from vertex_local.tests.support.recorded import RECORDED

pytestmark = pytest.mark.fast

PAGE = Path(vertex_local.__file__).with_name("COVERAGE.md")
SDK = Path(importlib.util.find_spec("google.cloud.aiplatform_v1").origin).parent
ROUTES = [route for module in MODULES for route in module.ROUTES]
HEAD = """\
# Coverage of the API

{num_there} of the {num_all} methods of `google.cloud.aiplatform.v1`, from the routes of the service
and the `gapic_metadata.json` of Google's SDK. In addition there are the operations of
`google.longrunning`, and `entries:list` of Cloud Logging. All other methods get 501.
`python vertex_local/tests/test_coverage.py` writes this page.

`tests/test_sdk_methods.py` calls each method below with Google's own client, except those with
"proto only", whose requests are checked against the API's proto.
"""


@dataclass(frozen=True)
class Rpc:
    """A method of the API, with its first address."""

    service: str
    name: str
    http: str
    is_there: bool

    @property
    def line(self) -> str:
        is_recorded = self.name in RECORDED.get(self.service, "").split()
        return f"- {self.name}: `{self.http}`" + ("" if is_recorded else ", proto only")


def rpcs() -> Iterator[Rpc]:
    """Yield the methods of all services, by service and name."""
    adapter = Application(None, ROUTES).url_map.bind("127.0.0.1")

    def is_route(method: str, path: str) -> bool:
        try:
            adapter.match(path, method)
        except HTTPException:
            return False
        return True

    services = json.loads((SDK / "gapic_metadata.json").read_text())["services"]
    for service, description in sorted(services.items()):
        for name in sorted(description["clients"]["rest"]["rpcs"]):
            addresses = [
                (option["method"].upper(), re.sub(r"{[^=}]+=([^}]+)}", r"\1", option["uri"]))
                for option in options(service, name)
            ]
            paths = [(method, re.sub(r"\*+", "x", uri)) for method, uri in addresses]
            is_there = any(is_route(method, path) for method, path in paths)
            method, uri = next(
                (one for one, path in zip(addresses, paths, strict=True) if is_route(*path)),
                addresses[0] if addresses else ("", ""),
            )
            uri = uri.replace("/v1/projects/*/locations/*", "…")
            yield Rpc(service=service, name=name, http=f"{method} {uri}".strip(), is_there=is_there)


def options(service: str, name: str) -> list[dict[str, str]]:
    """Return the HTTP methods and addresses of a method; none for a method of gRPC only."""
    folder = re.sub(r"(?<!^)(?=[A-Z])", "_", service).lower()
    module = importlib.import_module(
        f"google.cloud.aiplatform_v1.services.{folder}.transports.rest_base"
    )
    method = getattr(getattr(module, f"_Base{service}RestTransport"), f"_Base{name}")
    return getattr(method, "_get_http_options", list)()


def page() -> str:
    """Return the content of COVERAGE.md."""
    by_service: dict[str, list[Rpc]] = {}
    for rpc in rpcs():
        by_service.setdefault(rpc.service, []).append(rpc)
    everything = [rpc for group in by_service.values() for rpc in group]
    num_there = sum(rpc.is_there for rpc in everything)
    lines = [HEAD.format(num_there=num_there, num_all=len(everything))]
    absent = []
    for service, group in by_service.items():
        there = [rpc for rpc in group if rpc.is_there]
        if not there:
            absent.append(service)
            continue
        names = ", ".join(rpc.name for rpc in group if not rpc.is_there)
        lines.append(f"## {service}: {len(there)} of {len(group)}\n")
        lines += [rpc.line for rpc in there]
        lines += [f"\nNot there: {names}.\n" if names else ""]
    lines += ["## Services of which nothing is there\n", f"{', '.join(absent)}."]
    return "\n".join(lines) + "\n"


def test_the_page_is_what_the_routes_and_the_api_are():
    assert PAGE.read_text() == page(), f"{PAGE} is stale: python {__file__}"


def test_recorded_methods_have_a_route():
    there = {(rpc.service, rpc.name) for rpc in rpcs() if rpc.is_there}
    assert {(service, name) for service in RECORDED for name in RECORDED[service].split()} <= there


if __name__ == "__main__":
    PAGE.write_text(page())
