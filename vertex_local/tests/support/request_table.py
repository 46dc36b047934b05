"""The rows of `requests.yaml`, and their requests to a service or to Vertex AI."""

import copy
import gzip
import json
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import yaml

TABLE = Path(__file__).parents[1] / "requests.yaml"
TIMEOUT_SECONDS = 120
# Requests with which Vertex AI would start machines.
COSTLY = ("POST customJobs", "POST hyperparameterTuningJobs", "POST {endpoint}:deployModel")


class Loader(yaml.SafeLoader):
    """Loader of the table, with tags for long texts and many labels."""


Loader.add_constructor("!letters", lambda loader, node: "a" * int(node.value))
Loader.add_constructor("!key", lambda loader, node: {"a" * int(node.value): "b"})
Loader.add_constructor(
    "!times", lambda loader, node: operator.mul(*loader.construct_sequence(node, deep=True))
)
Loader.add_constructor(
    "!labels", lambda loader, node: {f"a{i}": "" for i in range(int(node.value))}
)


@dataclass(frozen=True)
class Answer:
    """The answer to a request: its code, and what an error says."""

    code: int
    status: str = ""
    message: str = ""
    fields: tuple[str, ...] = ()
    content: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, response: requests.Response) -> "Answer":
        content = response.json()
        error = {} if response.ok else content["error"]
        violations = [one for part in error.get("details", []) for one in part["fieldViolations"]]
        fields = tuple(one.get("field", "") for one in violations)
        status, message = error.get("status", ""), error.get("message", "")
        return cls(response.status_code, status, message, fields, content)


@dataclass(frozen=True)
class Row:
    """A row of the table: a request, and the answer of Vertex AI to it."""

    id: str
    request: str
    change: dict[str, Any]
    answer: str | int
    shows: str | dict[str, str]
    source: str
    local: str = ""
    encoding: str = ""

    def problems(self, answer: Answer) -> Iterator[str]:
        """Yield the differences between an answer and the row."""
        if f"{answer.code} {answer.status}".strip() != str(self.answer):
            yield f"{answer.code} {answer.status} ({answer.message}), not {self.answer}"
        elif isinstance(self.shows, str) and self.shows not in ("", *answer.fields):
            yield f"names {answer.fields} ({answer.message}), not {self.shows}"
        elif isinstance(self.shows, dict):
            for path, words in self.shows.items():
                keys, names = set(part(answer.content, path)), set(words.split()) - {"only"}
                if not names <= keys or (words.startswith("only ") and names != keys):
                    yield f"{path or 'the answer'} has {sorted(keys)}, not {words}"


def part(value: Any, path: str) -> Any:
    """Return the part of a JSON value at `endpoints.0`."""
    for key in filter(None, path.split(".")):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def changed(body: Any, change: dict[str, Any]) -> Any:
    """Return a body with the fields of a row; None removes a field."""
    body = copy.deepcopy(body)
    for path, value in change.items():
        # Label keys have dots, but are in a whole map of labels.
        parent, _, name = path.rpartition(".")
        target = part(body, parent)
        if value is None:
            del target[name]
        else:
            target[name] = value
    return body


def filled(text: str, names: dict[str, str]) -> str:
    """Replace `{endpoint}` and its like, but no other braces."""
    return re.sub(r"{(\w+)}", lambda match: names.get(match[1], match[0]), text)


with TABLE.open() as file:
    _TABLE = yaml.load(file, Loader)
ROWS, BODIES, SOURCES = [Row(*row) for row in _TABLE["rows"]], _TABLE["bodies"], _TABLE["sources"]


class Place:
    """A service or Vertex AI: the address, a project, and resources for the requests.

    `names` has the values of `{endpoint}` and its like.
    """

    def __init__(self, session: requests.Session, url: str, project: str, location: str) -> None:
        self.session, self.url = session, url
        self.parent = f"projects/{project}/locations/{location}"
        self.names = {"project": project, "parent": self.parent}

    def send(self, row: Row) -> Answer:
        """Send the request of a row."""
        method, _, path = row.request.partition(" ")
        kind = path.rpartition("}")[2].removeprefix(":").partition("?")[0]
        body = changed(BODIES.get(kind, {}), row.change) if method != "GET" else None
        return self.call(method, path, body, encoding=row.encoding)

    def call(self, method: str, path: str, body: Any = None, *, encoding: str = "") -> Answer:
        """Send a request to a path below the location, or to an absolute one."""
        path, _, query = filled(path, self.names).partition("?")
        url = self.url + (path if path.startswith("/") else f"/v1/{self.parent}/{path}")
        data = filled(json.dumps(body), self.names).encode() if body is not None else None
        headers = {"Content-Type": "application/json"}
        if encoding == "gzip":
            data, headers["Content-Encoding"] = gzip.compress(data), encoding
        parameters = dict(one.split("=", 1) for one in query.split("&") if one)
        response = self.session.request(
            method, url, params=parameters, data=data, headers=headers, timeout=TIMEOUT_SECONDS
        )
        return Answer.of(response)
