"""Partial responses: `readMask` (google.aip.dev/157) and `fields`, a system parameter of Google."""

import re
from typing import Any

from vertex_local.api.fields import camel_case, snake_case
from vertex_local.api.protos import field_names
from vertex_local.errors import invalid_argument

# Paths of the fields to return, each with all that is below it; everything, if there is none.
Mask = list[list[str]]

# Fields of responses that are in no proto of Vertex AI: operations, locations, log entries.
OTHER_FIELDS = ("done", "response", "locationId", "locations", "operations", "entries", "*")
FREE = {"labels", "metadata", "metrics", "pipelineSpec", "pipeline_spec", "response"}  # any names
MAX_CHARACTERS = 2000
GROUP = re.compile(r"([^(),]+)\(([^()]*)\)")


def parse(text: str, *, parameter: str) -> Mask:
    """Return the paths of `a,b.c,d/e,f(g,h)`; none of "".

    Raises:
        ApiError: INVALID_ARGUMENT if the API has no field of a name.
    """
    rest, previous = text[:MAX_CHARACTERS], ""
    while rest != previous:
        previous = rest
        rest = GROUP.sub(lambda at: f"{at[1]}/" + at[2].replace(",", f",{at[1]}/"), rest)
    mask = [re.split("[./]", path.strip()) for path in rest.split(",")] if text else []
    known = field_names().union(OTHER_FIELDS) if text else set()
    checked = [name for path in mask for at, name in enumerate(path) if FREE.isdisjoint(path[:at])]
    unknown = [name for name in checked if camel_case(name) not in known]
    if unknown or len(text) > MAX_CHARACTERS:
        raise invalid_argument(f"Invalid field selection {unknown[:1]} in {parameter}.")
    return mask


def apply(mask: Mask, value: Any) -> Any:
    """Return the part of a JSON value that a mask selects."""
    if not mask or [] in mask or not isinstance(value, list | dict):
        return value
    if isinstance(value, list):
        return [apply(mask, item) for item in value]
    selected = {
        key: [path[1:] for path in mask if path[0] in (key, snake_case(key), "*")] for key in value
    }
    return {key: apply(below, value[key]) for key, below in selected.items() if below}
