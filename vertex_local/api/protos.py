"""Check of requests against Vertex AI's protos, which refuse the same fields as Vertex AI.

`aiplatform_v1.pb` has the descriptors of all messages of the API, as Google's SDK has them: the SDK
itself takes 170 MB and seconds to import. `tests/api/test_protos.py` records them.
"""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vertex_local import Json
from vertex_local.errors import invalid_argument

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool

DESCRIPTORS = Path(__file__).with_name("aiplatform_v1.pb")
PACKAGE = "google.cloud.aiplatform.v1"


def parse(type_name: str, body: Json) -> Json:
    """Check `body` against the message `type_name` of the API; return its canonical JSON.

    Canonical: camelCase names, enum values by name, int64 as strings, no default values.

    Raises:
        ApiError: INVALID_ARGUMENT, naming the field that is unknown or has a wrong type.
    """
    from google.protobuf import json_format

    message = _message_class(type_name)()
    try:
        json_format.ParseDict(body, message, descriptor_pool=_pool())
        canonical: Json = json_format.MessageToDict(message, descriptor_pool=_pool())
    except RecursionError:
        problem = "it is nested too deeply"
    except (json_format.ParseError, ValueError, TypeError, OverflowError) as error:
        problem = str(error).split("\n", maxsplit=1)[0].removeprefix("Failed to parse ")
    else:
        return canonical
    raise invalid_argument(f"Invalid JSON payload for {type_name}: {problem.rstrip('.')}.")


@functools.cache
def _message_class(type_name: str) -> Any:
    from google.protobuf import message_factory

    descriptor = _pool().FindMessageTypeByName(f"{PACKAGE}.{type_name}")
    return message_factory.GetMessageClass(descriptor)


@functools.cache
def _pool() -> "DescriptorPool":
    """Return the API's messages; apart from the default pool, in which the SDK has its own."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS.read_bytes()).file:
        pool.Add(file)
    return pool
