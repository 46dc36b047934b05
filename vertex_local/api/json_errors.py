"""Fields of a JSON object that its proto does not allow, in the words of Google's servers."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vertex_local import Json
from vertex_local.errors import Violation

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

REQUIRED, OUTPUT_ONLY = b"\2", b"\3"  # google.api.FieldBehavior


def violations(message: "Descriptor", value: Json, path: str) -> Iterator[Violation]:
    """Yield the fields of a JSON object at `path` that a message has not, or with another type."""
    for name, item in value.items():
        field = message.fields_by_camelcase_name.get(name) or message.fields_by_name.get(name)
        if field is None:
            yield path, f"{_unknown_name(name, path)}: Cannot find field."
        elif item is not None:
            yield from _field_violations(field, item, f"{path}.{field.name}".lstrip("."))


def is_map(field: "FieldDescriptor") -> bool:
    """Return whether a field is a map, which in a proto is a list of entries."""
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def has_behavior(field: "FieldDescriptor", behavior: bytes) -> bool:
    """Return whether a field has a `google.api.field_behavior`, which is its only option."""
    return bool(field.GetOptions().SerializeToString()[-1:] == behavior)


def is_nested(field: "FieldDescriptor") -> bool:
    """Return whether the values of a field are messages of the API."""
    message = field.message_type
    return bool(
        message and not message.full_name.startswith("google.protobuf.") and not is_map(field)
    )


def _field_violations(field: "FieldDescriptor", item: Any, path: str) -> Iterator[Violation]:
    if not field.is_repeated:
        yield from _value_violations(field, item, path)
    elif not isinstance(item, dict if is_map(field) else list):
        yield path, _invalid_value(field, item, path)
    elif isinstance(item, dict):
        entry = field.message_type.fields_by_name["value"]
        for index, part in enumerate(item.values()):
            yield from _value_violations(entry, part, f"{path}[{index}].value")
    else:
        for index, part in enumerate(item):
            yield from _value_violations(field, part, f"{path}[{index}]")


def _value_violations(field: "FieldDescriptor", item: Any, path: str) -> Iterator[Violation]:
    if is_nested(field) and isinstance(item, dict):
        yield from violations(field.message_type, item, path)
    elif isinstance(item, list) and (is_nested(field) or not field.message_type):
        unknown = _unknown_name(field.name, path.rpartition(".")[0])
        yield path, f"{unknown}: Proto field is not repeating, cannot start list."
    elif not _fits(field, item):
        yield path, _invalid_value(field, item, path)


def _fits(field: "FieldDescriptor", item: Any) -> bool:
    from google.protobuf import json_format, message_factory

    message = message_factory.GetMessageClass(field.containing_type)()
    body = {field.name: [item] if field.is_repeated else item}
    with suppress(json_format.ParseError, ValueError, TypeError, OverflowError):
        json_format.ParseDict(body, message, descriptor_pool=field.file.pool)
        return True
    return False


def _unknown_name(name: str, path: str) -> str:
    unknown = f'Invalid JSON payload received. Unknown name "{name}"'
    return f"{unknown} at '{path}'" if path else unknown


def _invalid_value(field: "FieldDescriptor", item: Any, path: str) -> str:
    from google.protobuf import descriptor_pb2

    kind = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)
    if named := field.message_type or field.enum_type:
        kind = f"type.googleapis.com/{named.full_name}"
    is_object = isinstance(item, dict) and not named
    value = "Starting an object on a scalar field" if is_object else json.dumps(item)
    return f"Invalid value at '{path}' ({kind}), {value}"
