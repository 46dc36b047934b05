"""Messages of a saved_model.pb, as far as its operations need them, without importing TensorFlow.

https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/protobuf/saved_model.proto and
the files that it imports; fields that are not listed are skipped.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# "NUMBER NAME TYPE", with * if repeated; a map is a list of entries with `key` and `value`.
_MESSAGES: dict[str, tuple[str, ...]] = {
    "SavedModel": ("2 meta_graphs MetaGraph*",),
    "MetaGraph": (
        *("2 graph Graph", "3 saver Saver", "4 collections Collection*"),
        *("5 signatures Signature*", "6 assets Asset*", "7 objects Objects"),
    ),
    "Graph": ("1 nodes Node*", "2 library Library"),
    "Library": ("1 functions Function*",),
    "Function": ("1 signature Operation", "3 nodes Node*"),
    "Operation": ("1 name string", "2 arguments Tensor*"),
    "Node": ("1 name string", "2 op string", "3 inputs string*", "5 attributes Attribute*"),
    "Attribute": ("1 key string", "2 value Value"),
    "Value": ("1 list Values", "2 text bytes", "10 function Called"),
    "Values": ("9 functions Called*",),
    "Called": ("1 name string", "2 attributes Attribute*"),
    "Saver": ("2 save string", "3 restore string"),
    "Collection": ("1 key string", "2 value CollectionValue"),
    "CollectionValue": ("1 nodes Names",),
    "Names": ("1 names string*",),
    "Signature": ("1 key string", "2 value Tensors"),
    "Tensors": ("2 outputs Output*",),
    "Output": ("2 value Tensor",),
    "Tensor": ("1 name string",),
    "Asset": ("1 tensor Tensor", "2 filename string"),
    "Objects": ("1 objects Object*", "2 functions ConcreteFunction*"),
    "Object": ("5 asset Empty",),
    "Empty": (),
    "ConcreteFunction": ("1 key string", "2 value Captures"),
    "Captures": ("2 objects int32*",),
}
_PACKAGE = "trainyard"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"string": _Field.TYPE_STRING, "bytes": _Field.TYPE_BYTES, "int32": _Field.TYPE_INT32}


def parse_saved_model(content: bytes) -> Any:
    """Return the SavedModel of a saved_model.pb; DecodeError if it is damaged."""
    return _SAVED_MODEL.FromString(content)


def _message_class(name: str) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="trainyard.proto", package=_PACKAGE)
    file.syntax = "proto3"
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for number, field, kind in (text.split() for text in fields):
            described.field.append(_field(int(number), field, kind))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def _field(number: int, name: str, kind: str) -> Any:
    label = _Field.LABEL_REPEATED if kind.endswith("*") else _Field.LABEL_OPTIONAL
    kind = kind.rstrip("*")
    field = _Field(name=name, number=number, label=label)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    return field


_SAVED_MODEL = _message_class("SavedModel")
