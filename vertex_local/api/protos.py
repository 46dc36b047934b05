"""Check of requests against Vertex AI's protos, which refuse the same fields as Vertex AI.

`aiplatform_v1.pb` has the descriptors of all messages of the API, as Google's SDK has them: the SDK
itself takes 170 MB and seconds to import. `tests/api/test_protos.py` records them.
"""

import functools
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vertex_local import Json
from vertex_local.api import json_errors, requirements
from vertex_local.api.fields import camel_case, snake_case
from vertex_local.errors import ApiError, found_errors, invalid_argument

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

DESCRIPTORS = Path(__file__).with_name("aiplatform_v1.pb")
PACKAGE = "google.cloud.aiplatform.v1"
# Vertex AI names their fields without the message: `job_spec`, but `endpoint.labels`.
JOBS = ("CustomJob", "HyperparameterTuningJob")


def parse(type_name: str, body: Json, *, fields: Collection[str] | None = None) -> Json:
    """Check `body` against the message `type_name` of the API; return its canonical JSON.

    Canonical: camelCase names, enum values by name, int64 as strings, no default values, no fields
    that only responses have. Of an update only the `fields` that it changes must be complete.

    Raises:
        ApiError: INVALID_ARGUMENT, naming the fields that are unknown, have a wrong type or a
            value that Vertex AI refuses.
    """
    from google.protobuf import json_format

    message = _message_class(type_name)()
    path = "" if type_name.endswith("Request") else snake_case(type_name).lstrip("_")
    try:
        json_format.ParseDict(body, message, descriptor_pool=_pool())
        _clear_output_only(message)
        canonical: Json = json_format.MessageToDict(message, descriptor_pool=_pool())
    except RecursionError:
        raise invalid_argument("Invalid JSON payload received. It is nested too deeply.") from None
    except (json_format.ParseError, ValueError, TypeError, OverflowError) as error:
        violations = list(json_errors.violations(message.DESCRIPTOR, body, path))
        # Without any, a field is there twice: in both spellings, or two of a `oneof`.
        problems = [text for _, text in violations] or [f"Invalid JSON payload received. {error}"]
        raise ApiError("INVALID_ARGUMENT", "\n".join(problems), violations=violations) from None
    path = "" if type_name in JOBS else path
    if refused := list(requirements.violations(message.DESCRIPTOR, canonical, path, fields=fields)):
        raise found_errors(refused)
    return canonical


def _clear_output_only(message: "Message") -> None:
    for field, value in message.ListFields():
        if json_errors.has_behavior(field, json_errors.OUTPUT_ONLY):
            message.ClearField(field.name)
        elif json_errors.is_nested(field):
            for part in value if field.is_repeated else [value]:
                _clear_output_only(part)


@functools.cache
def field_names() -> frozenset[str]:
    """Return the names of all fields of the API, in camelCase."""
    messages = [message for file in _files() for message in file.message_type]
    nested = [part for message in messages for part in message.nested_type]
    fields = [field.name for message in (*messages, *nested) for field in message.field]
    return frozenset(camel_case(name) for name in fields)


@functools.cache
def _message_class(type_name: str) -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{type_name}"))


@functools.cache
def _pool() -> "DescriptorPool":
    """Return the API's messages; apart from the default pool, in which the SDK has its own."""
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    for file in _files():
        pool.Add(file)
    return pool


def _files() -> "list[FileDescriptorProto]":
    from google.protobuf import descriptor_pb2

    return list(descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS.read_bytes()).file)
