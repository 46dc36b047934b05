"""Placeholders of pipelines, for the run and for a task's inputs."""

import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from vertex_local.rules import Json

PLACEHOLDER = re.compile(r"\{\{\$\.[a-z_]+\}\}")
INPUT = re.compile(r"\{\{\$\.inputs\.parameters\['([^']*)'\]\}\}")
# Any placeholder: its path, empty for the whole executor input, and its escape.
ANY = re.compile(r"\{\{\$(?P<path>(?:\..*?)??)(?P<escape>\.json_escape\[[0-9]+\])?\}\}")
JSON_ESCAPE = ".json_escape[1]"  # written by Google's components for strings within JSON
MAX_NESTED = 3
PATH_PART = re.compile(r"""\[(?:'([^']*)'|"([^"]*)")\]|\.([A-Za-z_]+)""")
LOCAL_FIELDS = {"output_file": "outputFile", "path": "uri"}
STRUCTURES = ('{"IfPresent": ', '{"Concat": ')
OF_TASK = {
    "",
    ".outputs.output_file",
    ".outputMetadataUri",
    ".pipeline_root",
    ".pipeline_task_name",
    ".pipeline_task_uuid",
}
OF_INPUTS_AND_OUTPUTS = re.compile(r"\.(inputs|outputs)\.(parameters|artifacts)\[.+\].*")


class Unknown:
    """A value that only the run will know; `task` is the one that will give it."""

    def __init__(self, task: str = "") -> None:
        self.task = task


def fill(text: str, values: dict[str, str]) -> str:
    """Replace the placeholders in `values`; keep others."""
    return PLACEHOLDER.sub(lambda match: values.get(match[0], match[0]), text)


def fill_inputs(value: Any, arguments: Json, values: dict[str, str]) -> Any:
    """Replace placeholders of other arguments in a string, or in the strings of a structure.

    A string with an Unknown argument is Unknown.
    """

    def replace(match: re.Match[str]) -> str:
        if match[1] not in arguments:
            return match[0]
        return fill(as_text(arguments[match[1]]), values)

    def filled(leaf: Any) -> Any:
        if not isinstance(leaf, str):
            return leaf
        for name in INPUT.findall(leaf):
            if isinstance(argument := arguments.get(name), Unknown):
                return argument
        return INPUT.sub(replace, fill(leaf, values))

    return _mapped(value, filled)


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return a structure with a function applied to each value that is no list or object."""
    if isinstance(value, list):
        return [_mapped(item, function) for item in value]
    if isinstance(value, dict):
        return {key: _mapped(item, function) for key, item in value.items()}
    return function(value)


def resolve(
    text: str,
    values: dict[str, str],
    executor_input: Json,
    fillable: Collection[str],
    *,
    depth: int = MAX_NESTED,
) -> str:
    """Replace each placeholder; apply the escapes.

    Placeholders in the values of parameters are replaced, too, if these are `fillable`. The value
    of the executor input (`{{$}}`) is not resolved: its strings contain placeholders.
    """

    def replace(match: re.Match[str]) -> str:
        name = "{{$" + match["path"] + "}}"
        if not match["path"]:
            value = json.dumps(executor_input)
        elif name in values:
            value = values[name]
        else:
            field = _at(executor_input, match["path"])
            value = field if isinstance(field, str) else json.dumps(field)
            parameter = INPUT.fullmatch(name)
            if parameter and parameter[1] in fillable and depth:
                value = resolve(value, values, executor_input, fillable, depth=depth - 1)
        return json.dumps(value)[1:-1] if match["escape"] else value

    return ANY.sub(replace, text)


def _at(executor_input: Json, path: str) -> Any:
    """Return the value at a path such as `.inputs.artifacts['model'].metadata['resourceName']`."""
    keys = [key for match in PATH_PART.findall(path) for key in match if key]
    if not OF_INPUTS_AND_OUTPUTS.fullmatch(path):
        raise ValueError(f"{{{{${path}}}}} is an unknown placeholder")
    side, kind, name, *fields = keys
    is_input = (side, kind) == ("inputs", "parameters")
    value = executor_input[side]["parameterValues" if is_input else kind].get(name)
    if kind == "artifacts" and value:
        # Without a field it is a list of artifacts: of a single one, KFP names only fields.
        value = (value["artifacts"] or [{}])[0] if fields else value["artifacts"]
    if fields and fields[0] in LOCAL_FIELDS:
        fields[0] = LOCAL_FIELDS[fields[0]]
    for field in fields:
        value = value.get(field) if isinstance(value, dict) else None
    return value


def command(parts: Any, inputs: Json, filled: Callable[[str], str]) -> list[str]:
    """Return a command without `dsl.IfPresentPlaceholder` and `dsl.ConcatPlaceholder`.

    `filled` returns a text with the values of its placeholders.
    """
    if isinstance(parts, str):
        if not parts.startswith(STRUCTURES):
            return [filled(parts)]
        parts = json.loads(parts)
    if isinstance(parts, list):
        return [word for part in parts for word in command(part, inputs, filled)]
    if "Concat" in parts:
        return ["".join(command(parts["Concat"], inputs, filled))]
    choice = parts["IfPresent"]
    is_present = choice["InputName"] in inputs["parameterValues"] | inputs["artifacts"]
    chosen = choice["Then"] if is_present else choice.get("Else", [])
    return command(chosen, inputs, filled)


def unknown(value: Any, values: dict[str, str]) -> Iterator[str]:
    """Yield the unknown placeholders in a string, or in the strings of a structure."""
    for match in ANY.finditer(value if isinstance(value, str) else json.dumps(value)):
        path = match["path"]
        is_known = path in OF_TASK or "{{$" + path + "}}" in values
        if match["escape"] not in (None, JSON_ESCAPE) or not (
            is_known or OF_INPUTS_AND_OUTPUTS.fullmatch(path)
        ):
            yield match[0]


def as_text(value: Any) -> str:
    """Return a value for a parameter of type STRING: a string as it is, others as JSON."""
    return value if isinstance(value, str) else json.dumps(whole(value))


def whole(value: Any) -> Any:
    """Convert whole floats to int: protobuf's JSON values are doubles, so 3 arrives as 3.0."""

    def converted(leaf: Any) -> Any:
        return int(leaf) if isinstance(leaf, float) and leaf.is_integer() else leaf

    return _mapped(value, converted)
