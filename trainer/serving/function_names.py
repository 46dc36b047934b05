"""Names of the functions of an exported graph, the same however much its process has traced.

TensorFlow ends them with a number that counts everything the process has traced, such as
`__inference__serve_4725`: a job that continued from a checkpoint has another one, and equal models
shall have equal files.
"""

import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

CAPTURED = "_user_specified_name"  # of an input that a function captures, a number as well
NUMBERED = re.compile(r"(.*_)(\d+)")


def renumber_functions(path: str) -> None:
    """Give the functions of a saved_model.pb the numbers of their order, from 0."""
    saved = saved_model_pb2.SavedModel()
    with tf.io.gfile.GFile(path, "rb") as file:
        saved.ParseFromString(file.read())
    functions = [f for graph in saved.meta_graphs for f in graph.graph_def.library.function]
    found = [match for f in functions if (match := NUMBERED.fullmatch(f.signature.name))]
    found.sort(key=lambda match: int(match[2]))
    _rename(saved, {match[0]: f"{match[1]}{number}" for number, match in enumerate(found)})
    for attributes in (one.attr for f in functions for one in f.arg_attr.values()):
        if CAPTURED in attributes and attributes[CAPTURED].s.isdigit():
            del attributes[CAPTURED]
    for graph in saved.meta_graphs:
        graph.graph_def.library.function.sort(key=lambda function: function.signature.name)
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(saved.SerializeToString(deterministic=True))


def _rename(message: Any, names: Mapping[str, str]) -> None:
    """Replace texts and keys of maps that are old names, in a message and all below it."""
    for field, value in message.ListFields():
        if field.message_type and field.message_type.GetOptions().map_entry:
            for key in [key for key in value if key in names]:
                value[names[key]].CopyFrom(value[key])
                del value[key]
            if field.message_type.fields_by_name["value"].message_type:
                for each in value.values():
                    _rename(each, names)
        elif field.message_type:
            for each in value if field.is_repeated else [value]:
                _rename(each, names)
        elif field.type == field.TYPE_STRING and field.is_repeated:
            value[:] = [names.get(text, text) for text in value]
        elif field.type == field.TYPE_STRING and value in names:
            setattr(message, field.name, names[value])
