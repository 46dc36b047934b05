"""Comments of the messages that the service takes, as Google's SDK has them, by sentence."""

import importlib
import inspect
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google.cloud.aiplatform_v1 as sdk
from google.cloud.aiplatform_v1 import types
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from werkzeug.exceptions import HTTPException

from vertex_local.api.json_errors import is_map
from vertex_local.api.protos import PACKAGE
from vertex_local.app import Application
from vertex_local.server import MODULES

SERVICES = json.loads((Path(sdk.__file__).parent / "gapic_metadata.json").read_text())["services"]
ROUTES = [route for module in MODULES for route in module.ROUTES]
FIELD = re.compile(r"^ {4}(\w+) \(.*\):\n((?:(?: {8}.*)?\n)*)", re.MULTILINE)
# Of the generator of the SDK, not of the proto.
BOILERPLATE = re.compile(
    r"This message has `oneof`_ fields.*|This field is a member of `oneof`_ ``\w+``\."
    r"|\.\. _oneof:.*"
)
LINK = re.compile(r"`+([^`<]+?)(?:``)? ?<[^>]*>`__")
REFERENCE = re.compile(r"\[([^\]]*)\] ?\[(?:google\.[\w.]+)?\]")
SENTENCE_END = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!?]) (?=[A-Z`\[\d-])")


@dataclass(frozen=True)
class Method:
    """A method of the API that the service has.

    `in_path` are the fields of its request that are parts of the path, and `in_body` the one that
    is the body, or "*": all others are query parameters.
    """

    http: str
    pattern: str
    request: str
    in_path: frozenset[str]
    in_body: str

    @property
    def query(self) -> list[str]:
        """The names of its query parameters."""
        fields = descriptor_of(self.request).fields if self.in_body != "*" else []
        others = [one for one in fields if one.name not in {*self.in_path, self.in_body}]
        return [one.camelcase_name for one in others]


@dataclass(frozen=True)
class Sentence:
    """A sentence of the comment of a field, or of a message if `field` is "".

    `comment` is the whole comment.
    """

    message: str
    field: str
    text: str
    comment: str

    @property
    def descriptor(self) -> FieldDescriptor | None:
        """The field; None of a message's own comment."""
        field: FieldDescriptor | None = descriptor_of(self.message).fields_by_name.get(self.field)
        return field


def methods() -> Iterator[Method]:
    """Yield the methods of the API that the service has."""
    adapter = Application(None, ROUTES).url_map.bind("127.0.0.1")  # type: ignore[arg-type]
    for service, description in sorted(SERVICES.items()):
        for name in sorted(description["clients"]["rest"]["rpcs"]):
            transport = _transport(service, name)
            for option in getattr(transport, "_get_http_options", list)():
                path = re.sub(r"{[^=}]+=([^}]+)}", r"\1", option["uri"])
                try:
                    route, _ = adapter.match(re.sub(r"\*+", "x", path), option["method"].upper())
                except HTTPException:
                    continue
                [request] = set(re.findall(r"(\w+)\.pb\(request\)", inspect.getsource(transport)))
                in_path = re.findall(r"{(\w+)=", option["uri"])
                body = option.get("body", "")
                yield Method(route.method, route.pattern, request, frozenset(in_path), body)


def _transport(service: str, name: str) -> Any:
    folder = re.sub(r"(?<!^)(?=[A-Z])", "_", service).lower()
    module = importlib.import_module(
        f"google.cloud.aiplatform_v1.services.{folder}.transports.rest_base"
    )
    return getattr(getattr(module, f"_Base{service}RestTransport"), f"_Base{name}")


def type_of(message: str) -> Any:
    """Return the SDK's class of a message by its name, such as `StudySpec.MetricSpec`."""
    scope: Any = types
    for name in message.split("."):
        scope = getattr(scope, name)
    return scope


def descriptor_of(message: str) -> Descriptor:
    """Return the descriptor of a message by its name."""
    descriptor: Descriptor = type_of(message).pb().DESCRIPTOR
    return descriptor


def comments_of(message: str) -> dict[str, str]:
    """Return the comment of each field of a message, and its own for ""."""
    head, _, fields = f"{inspect.getdoc(type_of(message))}\n".partition("Attributes:\n")
    return {"": plain(head), **{name: plain(text) for name, text in FIELD.findall(fields)}}


def plain(text: str) -> str:
    """Return a comment in one line, without links and what the generator adds."""
    text = BOILERPLATE.sub("", re.sub(r"\s+", " ", text))
    text = REFERENCE.sub(r"\1", LINK.sub(r"\1", text))
    return text.replace("\\", "").strip()


def sentences(*, refused: Collection[str]) -> Iterator[Sentence]:
    """Yield the sentences on what requests may have, each of a message once.

    Fields that are parts of the path or in responses only, and those that the service has
    `refused`, are left out, with the messages that only they have.
    """
    left_out = {*refused}
    for method in methods():
        left_out |= {f"{method.request}.{name}" for name in method.in_path}
    seen: set[str] = set()

    def of_message(message: str) -> Iterator[Sentence]:
        if message in seen:
            return
        seen.add(message)
        for field, comment in comments_of(message).items():
            if f"{message}.{field}" in left_out or "Output only" in comment[:30]:
                continue
            for text in SENTENCE_END.split(comment):
                yield Sentence(message, field, text.strip(), comment)
            if field and (part := _message_of(descriptor_of(message).fields_by_name[field])):
                yield from of_message(part)

    for method in methods():
        yield from of_message(method.request)


def _message_of(field: FieldDescriptor) -> str:
    """Return the name of the message of the API that a field has, or ""."""
    message = field.message_type
    if message and is_map(field):
        message = message.fields_by_name["value"].message_type
    name: str = message.full_name if message else ""
    return name.removeprefix(f"{PACKAGE}.") if name.startswith(PACKAGE) else ""
