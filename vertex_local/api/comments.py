"""Rules that the comments of Vertex AI's protos state, each with its sentence.

`python -m tools.proto_rules`, in the folder above, writes `comments.json` from Google's SDK: rules
by message and field, and the query parameters of each method, of "*" those of all.
"""

import json
import math
import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from vertex_local import Json
from vertex_local.api.fields import camel_case
from vertex_local.errors import ApiError, Violation, found_errors

TABLE = orjson.loads(Path(__file__).with_name("comments.json").read_bytes())
OF_ITEMS = ("pattern", "choices", "range")  # of a list each
MAX_SHOWN = 100


def violations(
    message: str, value: Json, *, fields: Collection[str] | None = None
) -> Iterator[Violation]:
    """Yield the fields of a message, as canonical JSON, that break a rule, and its sentence.

    Of an update only the `fields` that it changes are checked.
    """
    for field, rules in TABLE["rules"].get(message, {}).items():
        if fields is not None and camel_case(field) not in fields:
            continue
        given = value.get(camel_case(field))
        for kind, limit, sentence in rules:
            for item in given if kind in OF_ITEMS and isinstance(given, list) else [given]:
                is_checked = item is not None or kind == "one"
                if is_checked and not _fits(kind, limit, item, value):
                    yield field, f"{sentence} It is {_shown(item)}."


def require(message: str, **values: str) -> None:
    """Check query parameters as fields of the request's message.

    Raises:
        ApiError: INVALID_ARGUMENT.
    """
    if broken := list(violations(message, values)):
        raise found_errors(broken)


def parameters(route: str, query: dict[str, str]) -> dict[str, str]:
    """Return the query parameters of a method, by its route, in camelCase.

    Raises:
        ApiError: INVALID_ARGUMENT: it has no such parameter, in the words of Google's servers.
    """
    if (known := TABLE["query"].get(route)) is None:
        return query
    for name in query:
        is_known = camel_case(name.partition(".")[0]) in (*known, *TABLE["query"]["*"])
        if not is_known and not name.startswith("$"):
            problem = (
                f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query '
                f"parameter. Field '{name}' could not be found in request message."
            )
            raise ApiError("INVALID_ARGUMENT", problem, violations=[("", problem)])
    return {camel_case(name): value for name, value in query.items()}


def _fits(kind: str, limit: Any, item: Any, message: Json) -> bool:
    """Return whether a field's value in a message keeps to the limit of a rule."""
    fits = True
    match kind:
        case "pattern":
            fits = bool(re.fullmatch(limit, item))
        case "choices":
            fits = item in limit
        case "size":
            fits = len(item) <= limit
        case "range":
            number = float(str(item).removesuffix("s"))  # of a duration the seconds
            fits = limit[0] <= number <= (limit[1] or math.inf)
        case "increasing":
            fits = all(after - before >= limit for before, after in pairwise(item))
        case "unique":
            fits = len({one.get(camel_case(limit)) for one in item}) == len(item)
        case "one" | "needs":
            fits = any(camel_case(name) in message for name in limit)
        case "without":
            fits = camel_case(limit) not in message
    return fits


def _shown(item: Any) -> str:
    if isinstance(item, list):
        return f"a list of {len(item)}"
    return "not set" if item is None else json.dumps(item, ensure_ascii=False)[:MAX_SHOWN]
