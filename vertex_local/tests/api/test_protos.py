"""Tests of the messages of the API. `python vertex_local/tests/api/test_protos.py` records them."""

import re
import subprocess
import sys

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from vertex_local.api import json_errors, protos

# In a docstring of the SDK: the name of a field, and the beginning of its text.
FIELD = re.compile(r"^ +(\w+) \(.*\):\n +(.*)", re.MULTILINE)
NUMBERS = (
    FieldDescriptorProto.TYPE_DOUBLE,
    FieldDescriptorProto.TYPE_FLOAT,
    FieldDescriptorProto.TYPE_INT32,
    FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_BOOL,
)
# `google.api.field_behavior`, number 1052 of FieldOptions: a list of one value.
BEHAVIOR = b"\xe2\x41\x01"
BEHAVIORS = {"Required": json_errors.REQUIRED, "Output only": json_errors.OUTPUT_ONLY}
SCRIPT = """
import sys
from vertex_local.api import protos

assert protos.parse("Endpoint", {"display_name": "one"}) == {"displayName": "one"}
assert not [name for name in sys.modules if name.startswith(("google.cloud.", "google.api_core"))]
from google.cloud import aiplatform_v1

assert aiplatform_v1.Endpoint(display_name="two").display_name == "two"
assert protos.parse("Endpoint", {"display_name": "two"}) == {"displayName": "two"}
"""


def test_requests_are_checked_without_the_sdk_and_beside_it():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=120)


@pytest.mark.fast
def test_structs_are_converted_and_fields_of_responses_ignored():
    job = {"pipelineSpec": {"a": [1, {"b": None}]}, "createTime": "2026-01-31T12:00:00Z"}
    assert protos.parse("PipelineJob", job) == {"pipelineSpec": {"a": [1.0, {"b": None}]}}


def test_the_messages_are_those_of_the_sdk():
    if protos.DESCRIPTORS.read_bytes() != recorded():
        pytest.fail(f"{protos.DESCRIPTORS} is stale; record it: python {__file__}")


def recorded() -> bytes:
    """Return the descriptors of all messages of the installed SDK, each after those it uses."""
    from google.cloud.aiplatform_v1 import types
    from google.protobuf import descriptor_pb2

    files = {}

    def add(file) -> None:
        if file.name not in files:
            for used in sorted(file.dependencies, key=lambda used: used.name):
                add(used)
            content = files[file.name] = descriptor_pb2.FileDescriptorProto()
            file.CopyToProto(content)
            content.dependency[:] = sorted(content.dependency)  # the SDK's order is by chance
            if file.package == protos.PACKAGE:
                mark_behaviors(content.message_type, types)

    for name in sorted(dir(types)):
        if hasattr(getattr(types, name), "pb"):
            add(getattr(types, name).pb().DESCRIPTOR.file)
    return descriptor_pb2.FileDescriptorSet(file=files.values()).SerializeToString(
        deterministic=True
    )


def mark_behaviors(messages, scope) -> None:
    """Give fields the `google.api.field_behavior` of their proto, of which the SDK has the text.

    A required number may be 0, which in a message is the same as no number.
    """
    for message in messages:
        message_type = getattr(scope, message.name, None)
        texts = dict(FIELD.findall(f"{message_type.__doc__}\n"))
        for field in message.field:
            word, _, _ = texts.get(field.name, "").partition(".")
            is_set_by_zero = field.type in NUMBERS and field.label != field.LABEL_REPEATED
            if word == "Output only" or (word == "Required" and not is_set_by_zero):
                field.options.MergeFromString(BEHAVIOR + BEHAVIORS[word])
        nested = [one for one in message.nested_type if not one.options.map_entry]
        mark_behaviors(nested, message_type)


if __name__ == "__main__":
    protos.DESCRIPTORS.write_bytes(recorded())
