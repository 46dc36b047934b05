"""Query parameters: `filter`, `orderBy`, `pageSize`, `pageToken`; `updateMask`."""

import fnmatch
import re
from typing import Any

from vertex_local.errors import invalid_argument
from vertex_local.routes import Call

Json = dict[str, Any]

MAX_PAGE_SIZE = 1000
TERM = re.compile(
    r"""\s*(?P<field>[A-Za-z_]+(?:\.(?:"[^"]*"|[A-Za-z0-9_-]+))?)
        \s*(?P<operator>!=|=|:)
        \s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"()]+))\s*""",
    re.VERBOSE,
)
ALLOWED = 'allowed are display_name="x", state="X", labels.key="value" and labels.key:*, with AND'


def matches(resource: Json, filter_text: str) -> bool:
    """Whether a resource satisfies a filter such as `labels.run="a" AND state!="FAILED"`.

    Raises:
        ApiError: INVALID_ARGUMENT, for a filter outside what is supported.
    """
    return all(_holds(resource, *term) for term in _terms(filter_text))


def paginate(call: Call, key: str, resources: list[Json]) -> Json:
    """Answers a list request: filtered, ordered and cut to a page, under `key`."""
    terms = _terms(call.query.get("filter", ""))
    chosen = [one for one in resources if all(_holds(one, *term) for term in terms)]
    chosen = _ordered(chosen, call.query.get("orderBy", ""))
    start = _number(call, "pageToken", default=0)
    end = start + min(_number(call, "pageSize", default=0) or MAX_PAGE_SIZE, MAX_PAGE_SIZE)
    answer: Json = {key: chosen[start:end]}
    if end < len(chosen):
        answer["nextPageToken"] = str(end)
    return answer


def update_mask(call: Call, allowed: tuple[str, ...]) -> list[str]:
    """The fields that `updateMask` names, in camelCase.

    Raises:
        ApiError: INVALID_ARGUMENT if it is missing or names a field that cannot be changed.
    """
    mask = [camel_case(field.strip()) for field in call.query.get("updateMask", "").split(",")]
    for field in mask:
        if field not in allowed:
            raise invalid_argument(
                f'updateMask field "{field}" cannot be updated here; allowed are '
                f"{', '.join(allowed)}."
            )
    return mask


def camel_case(field: str) -> str:
    """`displayName` for `display_name`."""
    head, *rest = field.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _terms(text: str) -> list[tuple[str, str, str]]:
    terms = []
    position = 0
    while text[position:].strip():
        match = TERM.match(text, position)
        if match is None:
            raise invalid_argument(f'filter "{text}" is not understood; {ALLOWED}.')
        quoted, bare = match["quoted"], match["bare"]
        value = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        terms.append((match["field"], match["operator"], value))
        position = match.end()
        joint = re.compile(r"AND\s+(?=\S)").match(text, position)
        if joint is None and position < len(text):
            raise invalid_argument(f'filter "{text}" is not understood; {ALLOWED}.')
        position = joint.end() if joint else position
    return terms


def _holds(resource: Json, field: str, operator: str, value: str) -> bool:
    actual = _value(resource, field)
    if operator == "!=":
        return actual != value
    if actual is None:
        return False
    if operator == ":" or value.endswith("*"):
        return fnmatch.fnmatchcase(actual, value)
    return actual == value


def _value(resource: Json, field: str) -> str | None:
    head, _, label = field.partition(".")
    if label:
        if head != "labels":
            raise invalid_argument(f'filter field "{field}" is not supported; {ALLOWED}.')
        found = resource.get("labels", {}).get(label.strip('"'))
    else:
        found = resource.get(camel_case(field))
    return found if found is None or isinstance(found, str) else str(found)


def _ordered(resources: list[Json], order_by: str) -> list[Json]:
    for part in reversed([p for p in order_by.split(",") if p.strip()]):
        field, *direction = part.split()
        if direction not in ([], ["asc"], ["desc"]):
            raise invalid_argument(
                f'orderBy "{order_by}" is not understood; write a field, then asc or desc.'
            )
        key = camel_case(field)
        resources = sorted(
            resources, key=lambda one: str(one.get(key, "")), reverse=direction == ["desc"]
        )
    return resources


def _number(call: Call, name: str, *, default: int) -> int:
    text = call.query.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise invalid_argument(f'{name} "{text}" is not valid; it must be a whole number.')
    return int(text)
