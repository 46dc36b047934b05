"""The table of rules, and what becomes of each sentence."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from google.longrunning import operations_pb2

from tools.proto_rules.comments import ROUTES, Sentence, methods, sentences
from tools.proto_rules.patterns import ANY_COUNT, DEMAND, Rule, rule, rules_of
from vertex_local.api import comments
from vertex_local.api.routes import Route

FILE = Path(comments.__file__).with_name("comments.json")
PERSONS = yaml.safe_load(Path(__file__).with_name("persons.yaml").read_text())
OPERATIONS = "/operations"
NO_RULE = "no rule"
# Of sentences that a client can break.
BROKEN = ("pattern", "person", "code", "type", "difference", NO_RULE)
RULED = ("pattern", "person", "code", "type")


@dataclass(frozen=True)
class Verdict:
    """What becomes of a sentence: its rules in the table, or the reason why it has none.

    `way` is `pattern`, `person`, or a reason in `persons.yaml`.
    """

    sentence: Sentence
    way: str
    rules: tuple[Rule, ...] = ()


@cache
def verdicts() -> list[Verdict]:
    """Return a verdict for each sentence that may demand something of a request."""
    all_sentences = sentences(refused=PERSONS["refused"])
    # The descriptors have which fields are required (`vertex_local/tests/api/test_protos.py`).
    return [
        _verdict(one) for one in all_sentences if DEMAND.search(one.text.removeprefix("Required."))
    ]


def _verdict(sentence: Sentence) -> Verdict:
    name = f"{sentence.message}.{sentence.field}"
    written = [
        rule(sentence, kind, limit, more="".join(more))
        for field, kind, limit, beginning, *more in PERSONS["rules"]
        if field == name and sentence.text.startswith(beginning)
    ]
    if written:
        return Verdict(sentence, "person", tuple(written))
    if read := tuple(rules_of(sentence)):
        return Verdict(sentence, "pattern", read)
    for reason, beginnings in {"code": PERSONS["code"], **PERSONS["reasons"]}.items():
        if any(sentence.text.startswith(one) for one in beginnings):
            return Verdict(sentence, reason)
    return Verdict(sentence, NO_RULE)


def rules() -> Iterator[Rule]:
    """Yield all rules: of the sentences, and of other sources."""
    for verdict in verdicts():
        yield from verdict.rules
    for name, kind, limit, _, text in PERSONS["sources"]:
        message, _, field = name.rpartition(".")
        yield Rule(message, field, kind, limit, text)


def table() -> dict[str, Any]:
    """Return the table: the rules by message and field, and query parameters by route."""
    by_message: dict[str, dict[str, list[list[Any]]]] = {}
    written = sorted(rules(), key=lambda one: (one.message, one.field))
    for one in written:
        limit = one.limit
        if one.kind == "choices":
            limit = [*limit, *PERSONS["sent"].get(f"{one.message}.{one.field}", [])]
        row = [one.kind, limit, one.sentence]
        ranges = [
            other
            for other in written
            if (other.message, other.field, other.kind) == (one.message, one.field, "range")
        ]
        if one.limit == ANY_COUNT and any(other.limit != ANY_COUNT for other in ranges):
            continue
        listed = by_message.setdefault(one.message, {}).setdefault(one.field, [])
        if row not in listed:
            listed.append(row)
    query = {"*": PERSONS["parameters"]} | {
        f"{method.http} {method.pattern}": method.query for method in methods()
    }
    query |= {
        f"{one.method} {one.pattern}": _of_operations(one)
        for one in ROUTES
        if OPERATIONS in one.pattern
    }
    return {"rules": by_message, "query": dict(sorted(query.items()))}


def _of_operations(route: Route) -> list[str]:
    """Return the query parameters of a method of `google.longrunning.Operations`."""
    method = route.pattern.rpartition(":")[2].capitalize() if ":" in route.pattern else ""
    request = {"GETlist": "ListOperationsRequest", "POSTWait": "WaitOperationRequest"}
    is_list = route.pattern.endswith(OPERATIONS)
    name = request.get(f"{route.method}{'list' if is_list else method}", "")
    fields = getattr(operations_pb2, name).DESCRIPTOR.fields if name else []
    return [field.camelcase_name for field in fields if field.name != "name"]


def text() -> str:
    """Return the table as JSON, a field or a route a line."""
    parts = table()
    rules = ",\n".join(
        f'"{message}": {{\n{_lines(fields)}\n}}' for message, fields in parts["rules"].items()
    )
    return f'{{"query": {{\n{_lines(parts["query"])}\n}},\n"rules": {{\n{rules}\n}}}}\n'


def _lines(values: dict[str, Any]) -> str:
    return ",\n".join(
        f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in values.items()
    )
