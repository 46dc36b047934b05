"""Tests of the messages of the API. `python vertex_local/tests/api/test_protos.py` records them."""

import subprocess
import sys

import pytest

from vertex_local.api import protos

SCRIPT = """
import sys
from vertex_local.api import protos

assert protos.parse("Model", {"display_name": "one"}) == {"displayName": "one"}
assert not [name for name in sys.modules if name.startswith(("google.cloud.", "google.api_core"))]
from google.cloud import aiplatform_v1

assert aiplatform_v1.Model(display_name="two").display_name == "two"
assert protos.parse("Model", {"display_name": "two"}) == {"displayName": "two"}
"""


def test_requests_are_checked_without_the_sdk_and_beside_it():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=120)


@pytest.mark.fast
def test_structs_times_and_any_are_converted():
    error = {"@type": "type.googleapis.com/google.cloud.aiplatform.v1.EnvVar", "name": "A"}
    job = {
        "pipelineSpec": {"a": [1, {"b": None}]},
        "createTime": "2026-01-31T12:00:00Z",
        "error": {"code": 3, "details": [error]},
    }
    assert protos.parse("PipelineJob", job) == {
        **job,
        "pipelineSpec": {"a": [1.0, {"b": None}]},
    }


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

    for name in sorted(dir(types)):
        if hasattr(getattr(types, name), "pb"):
            add(getattr(types, name).pb().DESCRIPTOR.file)
    return descriptor_pb2.FileDescriptorSet(file=files.values()).SerializeToString(
        deterministic=True
    )


if __name__ == "__main__":
    protos.DESCRIPTORS.write_bytes(recorded())
